"""Hits: records that match, each with the passages that prove it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evidence.access.matches import Match
from evidence.access.rows import VisibleRecord, VisibleRecords
from evidence.analyser import passages as evidence_passages
from evidence.analyser.graphemes import grapheme_floor
from evidence.analyser.matching import needs_verification, verify
from evidence.analyser.passages import Passage
from evidence.analyser.queries import Query
from evidence.declarations.values import field_text

PASSAGES_A_HIT = 3
TITLE_CHARS = 160


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A passage of one granted field that proves the match."""

    field: str
    text: str
    passage: Passage


@dataclass(frozen=True, slots=True)
class Hit:
    match: Match
    excerpts: Sequence[Excerpt]

    @property
    def visible(self) -> VisibleRecords:
        return self.match.visible

    @property
    def record(self) -> VisibleRecord:
        return self.match.record

    @property
    def title(self) -> str | None:
        title = _text(self.record, self.visible.stream.title_field)
        if title is None or len(title) <= TITLE_CHARS:
            return title
        return title[: grapheme_floor(title, TITLE_CHARS)] + "…"

    @property
    def authored_at(self) -> str | None:
        return _text(self.record, self.visible.stream.event_time_field)


def judge(query: Query) -> Callable[[Match], Hit | None]:
    """Makes a match a hit, or nothing where its text lacks what only the text can show."""

    def judged(match: Match) -> Hit | None:
        texts = dict(texts_of(match))
        languages = match.record.connection.languages
        if needs_verification(query, languages=languages) and not verify(
            texts, query, languages=languages
        ):
            return None
        return Hit(match, _excerpts(query, texts, languages))

    return judged


def texts_of(match: Match) -> Iterator[tuple[str, str]]:
    """The granted searchable texts of a record, as they were indexed."""
    for name in match.visible.stream.lexical_fields:
        if match.visible.shows(name) and name in match.record.data:
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
