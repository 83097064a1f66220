"""What a search is asked, and what it answers, whatever its mode."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evidence.access.embedded import Scoped
from evidence.access.rows import VisibleRecords
from evidence.reading.hits import Hit
from evidence.reading.spelling import Holder, Spellings

Place = Mapping[str, Any]
"""Where a page ended, as JSON: what its cursor remembers. Each mode knows its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    q: str
    mode: str
    streams: Sequence[str] | None
    connection_id: str | None
    filters: Sequence[tuple[tuple[str, ...], str]]
    limit: int
    newest_first: bool
    after: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """``count`` is exact unless ``lower_bound``; None where it was not counted. ``complete`` is
    whether every match can be reached, ``window`` how many of each ranking were fused.

    With ``any_word`` any of the words sufficed, or another spelling of one that no visible text
    has; those are its ``suggestions`` too,
    and ``holders`` the records that the suggestions disclose. ``place(n)`` is where the page ends when it is cut to
    its first ``n`` hits; ``waiting`` are streams of which some visible text has no vector yet,
    ``reindexing`` those whose words may yet be indexed as other languages or an earlier analyser
    have them.
    """

    hits: Sequence[Hit]
    has_more: bool
    place: Callable[[int], Place]
    skipped: Sequence[VisibleRecords] = ()
    count: int | None = None
    lower_bound: bool = False
    complete: bool = True
    window: int | None = None
    lexical: bool = True
    any_word: Spellings | None = None
    suggestions: Spellings = field(default_factory=dict)
    holders: Sequence[Holder] = ()
    waiting: Sequence[Scoped] = ()
    reindexing: Sequence[Scoped] = ()
