"""The search request, its hits and the result page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from evidence.access.ranking.matches import HitPosition, Match
from evidence.access.ranking.vectors import NearestPassage, StreamKey
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.declarations.values import field_text
from evidence.search.analysis.highlighter import Passage, best_passages
from evidence.search.analysis.matcher import needs_verification, verify
from evidence.search.analysis.query_tree import Query
from evidence.search.analysis.work_limit import UNITS_PER_TEXT, WorkLimit


@dataclass(frozen=True, slots=True)
class SuggestionHolder:
    """A visible record that contains a suggested word, and the fields that contain it."""

    connection_id: str
    stream: str
    record_key: str
    fields: frozenset[str]


PASSAGES_PER_HIT = 3
WORK_PER_SEARCH = 1_500_000
"""Units of work (`analysis.work_limit`) for the checks of one search; its excerpts get as many."""
MIN_WORK_PER_HIT = 10_000
"""Units that each hit gets even if earlier hits used up the limit."""

HitKey: TypeAlias = tuple[str, str, str]
"""connection_id, stream, record_key"""

Spellings: TypeAlias = Mapping[str, Sequence[str]]
"""Alternative spellings of each query word."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A passage of one granted field."""

    field: str
    text: str
    passage: Passage


@dataclass(frozen=True)
class Hit:
    """A record found by its words, by its meaning, or by both.

    ``query`` and ``rank`` are the lexical match and its position, ``near`` is the nearest passage,
    and ``fused`` the points of both rankings.
    """

    visible: VisibleRecords
    record: VisibleRecord
    query: Query | None = None
    rank: HitPosition | None = None
    near: NearestPassage | None = None
    fused: int | None = field(default=None, kw_only=True)
    work: WorkLimit = field(default_factory=WorkLimit, kw_only=True, compare=False)
    """Shared by the hits of one search, so that the limit applies to a whole page."""

    @property
    def key(self) -> HitKey:
        record = self.record
        return record.connection.connection_id, self.visible.stream.name, record.record_key

    @cached_property
    def excerpts(self) -> Sequence[Excerpt]:
        """The passages that prove the match; empty if no query word occurs (B3)."""
        if self.query is None:
            return ()
        languages = self.record.connection.languages
        with self.work.share(max_units=UNITS_PER_TEXT // 4, min_units=MIN_WORK_PER_HIT) as part:
            return _excerpts(self.query, dict(visible_texts(self)), languages, part)

    @property
    def nearest(self) -> Excerpt | None:
        """The passage nearest in meaning, which is no proof of a match."""
        near = self.near
        if near is None or not self.visible.shows(near.field):
            return None
        text = field_text(self.record.data.get(near.field))
        # The record may have changed after the passage was embedded.
        if near.end > len(text):
            return None
        return Excerpt(near.field, text, Passage(near.start, near.end, ()))


class RecordOfStream(Protocol):
    """A record with its stream: a Match or a Hit."""

    @property
    def visible(self) -> VisibleRecords: ...
    @property
    def record(self) -> VisibleRecord: ...


@dataclass(frozen=True)
class HitBuilder:
    """Turns the matches of one search into hits, within the work limit of one search."""

    query: Query
    _checks: WorkLimit = field(default_factory=lambda: WorkLimit(WORK_PER_SEARCH))
    _excerpts: WorkLimit = field(default_factory=lambda: WorkLimit(WORK_PER_SEARCH))
    _unread: list[HitKey] = field(default_factory=list)

    @property
    def exhausted(self) -> bool:
        return self._checks.exhausted

    @property
    def complete(self) -> bool:
        """Whether every text was read far enough to decide."""
        return not self._unread

    def to_hit(self, match: Match) -> Hit | None:
        """Return the hit, or None if its text does not satisfy the query."""
        languages = match.record.connection.languages
        hit = Hit(match.visible, match.record, self.query, match.rank, work=self._excerpts)
        if not needs_verification(self.query, languages=languages):
            return hit
        with self._checks.share(max_units=UNITS_PER_TEXT // 4) as part:
            texts = dict(visible_texts(match))
            verified = verify(texts, self.query, languages=languages, work=part)
        if part.exhausted:
            self._unread.append(hit.key)
        return hit if verified else None


def visible_texts(match: RecordOfStream) -> Iterator[tuple[str, str]]:
    """Yield name and text of the searchable fields that the grant shows, as indexed."""
    for name in match.visible.stream.lexical_fields:
        if name in match.record.data:
            yield name, field_text(match.record.data[name])


def _excerpts(
    query: Query, texts: dict[str, str], languages: tuple[str, ...], work: WorkLimit
) -> list[Excerpt]:
    """Return the best passages of all fields, best first."""
    excerpts = [
        Excerpt(name, text, passage)
        for name, text in texts.items()
        for passage in best_passages(
            text, query, languages=languages, field=name, limit=PASSAGES_PER_HIT, work=work
        )
    ]
    excerpts.sort(key=lambda excerpt: -_count_marked_words(excerpt))
    return excerpts[:PASSAGES_PER_HIT]


def _count_marked_words(excerpt: Excerpt) -> int:
    """Return the number of different marked words, which ranks passages across fields."""
    return len({excerpt.text[start:end].casefold() for start, end in excerpt.passage.marks})


CursorState = Mapping[str, Any]
"""The content of a cursor as JSON: where a page ended. Each search mode has its own format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    q: str
    mode: str
    streams: Sequence[str] | None
    connection_id: str | None
    filters: Sequence[tuple[tuple[str, ...], str]]
    limit: int
    newest_first: bool
    after: CursorState | None
    exact: bool = False
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """One page of hits, and how complete the search is.

    ``count`` is exact unless ``lower_bound``, and None if nothing was counted. ``complete`` means
    that cursors reach every match; ``window`` is the number of hits fused per ranking. With
    ``any_word``, hits match any word or any of these spellings. ``asked`` is the query without
    stop words, and no visible record matches its ``absent_words``. ``holders`` are the records that
    the ``suggestions`` disclose. ``cursor_state(n)`` is the cursor after the first ``n`` hits.
    ``waiting`` lists streams with visible texts that have no vector yet; ``reindexing`` lists
    streams that may still be indexed for other languages or by an older analyzer.
    """

    hits: Sequence[Hit]
    has_more: bool
    cursor_state: Callable[[int], CursorState]
    skipped: Sequence[VisibleRecords] = ()
    count: int | None = None
    lower_bound: bool = False
    complete: bool = True
    window: int | None = None
    lexical: bool = True
    any_word: Spellings | None = None
    asked: Query | None = None
    absent_words: Sequence[str] = ()
    suggestions: Spellings = field(default_factory=dict)
    holders: Sequence[SuggestionHolder] = ()
    waiting: Sequence[StreamKey] = ()
    reindexing: Sequence[StreamKey] = ()
