"""Hits: records that match, each with the passages that prove it or come nearest."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from evidence.access.matches import Match, Rank
from evidence.access.rows import VisibleRecord, VisibleRecords
from evidence.access.vectors import Near
from evidence.analyser import passages as evidence_passages
from evidence.analyser.graphemes import grapheme_floor
from evidence.analyser.matching import needs_verification, verify
from evidence.analyser.passages import Passage
from evidence.analyser.queries import Query
from evidence.declarations.values import field_text

PASSAGES_A_HIT = 3
TITLE_CHARS = 160

Key: TypeAlias = tuple[str, str, str]
"""connection_id, stream, record_key"""


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
        return _excerpts(self.query, dict(texts_of(self)), languages)

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


def judge(query: Query) -> Callable[[Match], Hit | None]:
    """Makes a match a hit, or nothing where its text lacks what only the text can show."""

    def judged(match: Match) -> Hit | None:
        languages = match.record.connection.languages
        if needs_verification(query, languages=languages) and not verify(
            dict(texts_of(match)), query, languages=languages
        ):
            return None
        return Hit(match.visible, match.record, query, match.rank)

    return judged


def near_hit(visible: VisibleRecords, record: VisibleRecord, near: Near) -> Hit:
    """A hit for its meaning alone."""
    return Hit(visible, record, near=near)


def texts_of(match: OfStream) -> Iterator[tuple[str, str]]:
    """The searchable texts of a record that its grant shows, as they were indexed."""
    for name in match.visible.stream.lexical_fields:
        if name in match.record.data:
            yield name, field_text(match.record.data[name])


def _excerpts(query: Query, texts: dict[str, str], languages: tuple[str, ...]) -> list[Excerpt]:
    """The best passages over all fields, best first."""
    found = [
        Excerpt(name, text, passage)
        for name, text in texts.items()
        for passage in evidence_passages.passages(
            text, query, languages=languages, field=name, limit=PASSAGES_A_HIT
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
