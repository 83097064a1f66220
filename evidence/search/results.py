"""What a search is asked, and what it answers, whatever its mode."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from evidence.access.ranking.matches import Match, Rank
from evidence.access.ranking.vectors import Near, Scoped
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.declarations.values import field_text
from evidence.search.analysis import highlighter as evidence_passages
from evidence.search.analysis.graphemes import grapheme_floor
from evidence.search.analysis.highlighter import Passage
from evidence.search.analysis.matcher import needs_verification, verify
from evidence.search.analysis.query_tree import Query
from evidence.search.analysis.work_limit import ONE_TEXT, WorkLimit


@dataclass(frozen=True, slots=True)
class Holder:
    """A visible record with a suggested word, and the fields that have it."""

    connection_id: str
    stream: str
    record_key: str
    fields: frozenset[str]


PASSAGES_A_HIT = 3
TITLE_CHARS = 160
WORK = 1_500_000
"""Units of work (`evidence.search.analysis.work_limit`) for the checks of one search, and again for its excerpts."""
WORK_A_HIT = 10_000
"""So much each hit has, whatever the hits before it took."""

Key: TypeAlias = tuple[str, str, str]
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
    """``query`` is what its words match, with their place in the order of matches as ``rank``;
    ``near`` its nearest passage. Either may be missing. ``fused`` are its points of both."""

    visible: VisibleRecords
    record: VisibleRecord
    query: Query | None = None
    rank: Rank | None = None
    near: Near | None = None
    fused: int | None = field(default=None, kw_only=True)
    work: WorkLimit = field(default_factory=WorkLimit, kw_only=True, compare=False)
    """Shared by the hits of one search, so that one page has a limit."""

    @property
    def key(self) -> Key:
        record = self.record
        return record.connection.connection_id, self.visible.stream.name, record.record_key

    @cached_property
    def excerpts(self) -> Sequence[Excerpt]:
        """The passages that prove the match: none where no word of the query stands (B3)."""
        if self.query is None:
            return ()
        languages = self.record.connection.languages
        with self.work.share(most=ONE_TEXT // 4, least=WORK_A_HIT) as part:
            return _excerpts(self.query, dict(texts_of(self)), languages, part)

    @property
    def nearest(self) -> Excerpt | None:
        """The passage whose meaning is nearest; it proves nothing."""
        near = self.near
        if near is None or not self.visible.shows(near.field):
            return None
        text = field_text(self.record.data.get(near.field))
        # The record may have changed since the passage was found.
        if near.end > len(text):
            return None
        return Excerpt(near.field, text, Passage(near.start, near.end, ()))

    @property
    def title(self) -> str | None:
        title = _text(self.record, self.visible.stream.title_field)
        if title is None or len(title) <= TITLE_CHARS:
            return title
        return title[: grapheme_floor(title, TITLE_CHARS)] + "…"

    @property
    def authored_at(self) -> str | None:
        return _text(self.record, self.visible.stream.event_time_field)


class OfStream(Protocol):
    """A record with the stream it was found in."""

    @property
    def visible(self) -> VisibleRecords: ...
    @property
    def record(self) -> VisibleRecord: ...


@dataclass(frozen=True)
class Judge:
    """Makes the matches of one search hits. ``exhausted`` when a text was left unread for its size."""

    query: Query
    _checks: WorkLimit = field(default_factory=lambda: WorkLimit(WORK))
    _excerpts: WorkLimit = field(default_factory=lambda: WorkLimit(WORK))
    _unread: list[Key] = field(default_factory=list)

    @property
    def exhausted(self) -> bool:
        return self._checks.exhausted

    @property
    def complete(self) -> bool:
        """Whether every text was read as far as needed."""
        return not self._unread

    def hit(self, match: Match) -> Hit | None:
        """The hit, or nothing where its text lacks what only the text can show."""
        languages = match.record.connection.languages
        hit = Hit(match.visible, match.record, self.query, match.rank, work=self._excerpts)
        if not needs_verification(self.query, languages=languages):
            return hit
        with self._checks.share(most=ONE_TEXT // 4) as part:
            texts = dict(texts_of(match))
            verified = verify(texts, self.query, languages=languages, work=part)
        if part.exhausted:
            self._unread.append(hit.key)
        return hit if verified else None


def near_hit(visible: VisibleRecords, record: VisibleRecord, near: Near) -> Hit:
    """A hit for its meaning alone."""
    return Hit(visible, record, near=near)


def texts_of(match: OfStream) -> Iterator[tuple[str, str]]:
    """The searchable texts of a record that its grant shows, as they were indexed."""
    for name in match.visible.stream.lexical_fields:
        if name in match.record.data:
            yield name, field_text(match.record.data[name])


def _excerpts(
    query: Query, texts: dict[str, str], languages: tuple[str, ...], work: WorkLimit
) -> list[Excerpt]:
    """The best passages over all fields, best first."""
    found = [
        Excerpt(name, text, passage)
        for name, text in texts.items()
        for passage in evidence_passages.passages(
            text, query, languages=languages, field=name, limit=PASSAGES_A_HIT, work=work
        )
    ]
    found.sort(key=lambda excerpt: -_different_words(excerpt))
    return found[:PASSAGES_A_HIT]


def _different_words(excerpt: Excerpt) -> int:
    """How many different marked words a passage shows: what ranks passages across fields."""
    return len({excerpt.text[start:end].casefold() for start, end in excerpt.passage.marks})


def _text(record: VisibleRecord, field: str | None) -> str | None:
    value: Any = record.data.get(field) if field is not None else None
    return value if isinstance(value, str) and value else None


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
