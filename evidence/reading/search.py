"""Lexical search with proof: hits over all matches, each with the passages that made it one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evidence.access.gate import Gate
from evidence.access.matches import Branch, Match, Rank, Terms, counted, ranked
from evidence.access.rows import VisibleRecord, VisibleRecords
from evidence.access.visible import Sight
from evidence.analyser import passages as evidence_passages
from evidence.analyser.graphemes import grapheme_floor
from evidence.analyser.matching import needs_verification, verify
from evidence.analyser.passages import Passage
from evidence.analyser.queries import Query, QueryError
from evidence.analyser.query import parse
from evidence.analyser.relaxing import essential, relax
from evidence.analyser.tsquery import score_terms, to_tsquery
from evidence.declarations.values import field_text
from evidence.refusals import InvalidRequest

COUNTED_UP_TO = 10_000
CANDIDATES_READ = 2_000
"""How many rows a phrase may be looked for in; beyond them recall says that it is not complete."""
PASSAGES_A_HIT = 3
CANDIDATES_A_TIME = 200
TITLE_CHARS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    q: str
    streams: Sequence[str] | None
    connection_id: str | None
    limit: int
    newest_first: bool
    after: Rank | None
    relaxed: bool


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


@dataclass(frozen=True, slots=True)
class Found:
    """``count`` is exact unless ``lower_bound``; ``relaxed`` says that any word sufficed."""

    hits: Sequence[Hit]
    has_more: bool
    count: int
    lower_bound: bool
    complete: bool
    relaxed: bool
    searched: Sequence[VisibleRecords]
    skipped: Sequence[VisibleRecords]


def search(gate: Gate, request: SearchRequest) -> Found:
    """Two queries beyond the token's: the hits and their count. Two more when no record has all
    the words and any of them is tried; further pages of candidates when a phrase is looked for."""
    visible = gate.streams(names=request.streams, connection_id=request.connection_id)
    query = _parsed(request.q, visible)
    searched = [each for each in visible if _fields(each)]
    named = request.streams is not None
    skipped = [each for each in visible if named and not _fields(each)]
    if request.relaxed:
        query = relax(query)
    found = _found(query, searched, skipped, request, relaxed=request.relaxed)
    if found.hits or request.after is not None or request.relaxed:
        return found
    any_word = relax(query)
    if any_word == query:
        return found
    return _found(any_word, searched, skipped, request, relaxed=True)


def _found(
    query: Query,
    searched: Sequence[VisibleRecords],
    skipped: Sequence[VisibleRecords],
    request: SearchRequest,
    *,
    relaxed: bool,
) -> Found:
    branches = [branch for each in searched for branch in _branches(query, each)]
    hits, exhausted = _verified(query, branches, request)
    count, exact = _count(query, branches, hits, request, exhausted=exhausted)
    return Found(
        hits=hits[: request.limit],
        has_more=len(hits) > request.limit or not exhausted,
        count=count,
        lower_bound=not exact,
        complete=exhausted or len(hits) > request.limit,
        relaxed=relaxed,
        searched=searched,
        skipped=skipped,
    )


def _verified(
    query: Query, branches: Sequence[Branch], request: SearchRequest
) -> tuple[list[Hit], bool]:
    """Up to ``limit`` + 1 hits; candidates without the phrase are passed over. The second value
    says whether the candidates could all be read as far as needed."""
    wanted = request.limit + 1
    from_text = _needs_texts(query, branches)
    hits: list[Hit] = []
    after = request.after
    read = 0
    while len(hits) < wanted:
        step = max(wanted, CANDIDATES_A_TIME) if from_text else wanted - len(hits)
        page = ranked(branches, limit=step, after=after, newest_first=request.newest_first)
        hits.extend(hit for hit in map(_hit(query), page) if hit is not None)
        read += len(page)
        if len(page) < step:
            return hits, True
        if read >= CANDIDATES_READ:
            return hits, False
        after = page[-1].rank
    return hits, True


def _count(
    query: Query,
    branches: Sequence[Branch],
    hits: Sequence[Hit],
    request: SearchRequest,
    *,
    exhausted: bool,
) -> tuple[int, bool]:
    """How many match in all, and whether that is exact. Where texts must be read to know, all the
    hits at hand are counted, exactly when the first page holds them all."""
    if _needs_texts(query, branches):
        first_page = request.after is None
        return len(hits), first_page and exhausted and len(hits) <= request.limit
    count = counted(branches, most=COUNTED_UP_TO)
    return min(count, COUNTED_UP_TO), count <= COUNTED_UP_TO


def _needs_texts(query: Query, branches: Sequence[Branch]) -> bool:
    """Whether some match can only be told from the text: a phrase, or one that is excluded."""
    return any(
        needs_verification(query, languages=branch.visible.connections[0].languages)
        for branch in branches
    )


def _parsed(q: str, visible: Sequence[VisibleRecords]) -> Query:
    """The query, in which only granted searchable fields are names of fields."""
    names = frozenset(name for each in visible for name in _fields(each))
    try:
        query = parse(q, fields=names)
    except QueryError as error:
        raise InvalidRequest(
            message=error.message, param="q", position=error.position, reason=error.code
        ) from error
    return essential(query, languages=_languages(visible))


def _languages(visible: Sequence[VisibleRecords]) -> frozenset[str]:
    """Those of the connections that are searched: in one of them the question is asked."""
    return frozenset(
        language for each in visible for facts in each.connections for language in facts.languages
    )


def _fields(visible: VisibleRecords) -> list[str]:
    """The searchable fields that at least one grant of the stream shows."""
    return [
        name
        for name in visible.stream.lexical_fields
        if any(sight.terms.fields.allows(name) for sight in visible.sights)
    ]


def _branches(query: Query, visible: VisibleRecords) -> Iterator[Branch]:
    """One for each set of granted fields and each set of languages."""
    for alone in _alike(visible):
        codes = {
            name: alone.layout["search"][name]
            for name in alone.stream.lexical_fields
            if alone.shows(name)
        }
        languages = alone.connections[0].languages
        matching = to_tsquery(query, codes=codes, languages=languages)
        if matching is not None:
            tiers = score_terms(query, codes=codes, languages=languages)
            yield Branch(alone, Terms(matching, tuple(map(tuple, tiers))))


def _alike(visible: VisibleRecords) -> Iterable[VisibleRecords]:
    together: dict[tuple[object, ...], list[Sight]] = {}
    for sight in visible.sights:
        for facts in sight.connections:
            key = (sight.grant_id, facts.languages)
            together.setdefault(key, []).append(Sight(sight.grant_id, sight.terms, (facts,)))
    for sights in together.values():
        connections = tuple(each.connections[0] for each in sights)
        merged = Sight(sights[0].grant_id, sights[0].terms, connections)
        yield VisibleRecords(visible.source, visible.stream, visible.layout, (merged,))


def _hit(query: Query) -> Callable[[Match], Hit | None]:
    """Makes a match a hit, or nothing where its text lacks what only the text can show."""

    def judged(match: Match) -> Hit | None:
        texts = dict(_texts(match))
        languages = match.record.connection.languages
        if needs_verification(query, languages=languages) and not verify(
            texts, query, languages=languages
        ):
            return None
        return Hit(match, _excerpts(query, texts, languages))

    return judged


def _texts(match: Match) -> Iterator[tuple[str, str]]:
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
