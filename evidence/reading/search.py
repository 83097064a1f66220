"""Lexical search with proof: hits over all matches, each with the passages that made it one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evidence.access.gate import Gate
from evidence.access.matches import SCORED, Branch, Matches, Rank
from evidence.access.rows import VisibleRecords
from evidence.analyser.matching import needs_verification
from evidence.analyser.queries import Query, QueryError
from evidence.analyser.query import parse
from evidence.analyser.relaxing import essential, relax
from evidence.reading.branches import branches, languages_of, searchable_fields
from evidence.reading.hits import Hit, judge
from evidence.reading.spelling import Spellings, other_spellings
from evidence.refusals import InvalidRequest

COUNTED_UP_TO = 10_000
CANDIDATES_READ = 2_000
"""How many rows a phrase may be looked for in; beyond them recall says that it is not complete."""
CANDIDATES_A_TIME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    q: str
    streams: Sequence[str] | None
    connection_id: str | None
    limit: int
    newest_first: bool
    after: Rank | None
    any_word: Spellings | None
    """What a cursor remembers of an answer for which any word sufficed."""


@dataclass(frozen=True, slots=True)
class Found:
    """``count`` is exact unless ``lower_bound``. With ``any_word`` any of the words sufficed, or
    another spelling of one that no visible text has; those are its ``suggestions`` too."""

    hits: Sequence[Hit]
    has_more: bool
    count: int
    lower_bound: bool
    complete: bool
    skipped: Sequence[VisibleRecords]
    any_word: Spellings | None = None
    suggestions: Spellings = field(default_factory=dict)


def search(gate: Gate, request: SearchRequest) -> Found:
    """Three queries beyond the token's where few records match: their count, their places and the
    rows of a page; some more where very many do. More when no record has all the words: for other
    spellings, then the same again when any word will do; and further rows for a phrase."""
    visible = gate.streams(names=request.streams, connection_id=request.connection_id)
    query = _parsed(request.q, visible)
    named = request.streams is not None
    skipped = [each for each in visible if named and not searchable_fields(each)]
    searched = [each for each in visible if searchable_fields(each)]
    if request.any_word is not None:
        return _any_word(query, searched, skipped, request, spellings=request.any_word)
    found = _found(query, searched, skipped, request)
    if found.hits or request.after is not None:
        return found
    spellings = other_spellings(query, searched)
    if relax(query, languages=languages_of(searched)) == query:
        return replace(found, suggestions=spellings)
    return _any_word(query, searched, skipped, request, spellings=spellings)


def _any_word(
    query: Query,
    searched: Sequence[VisibleRecords],
    skipped: Sequence[VisibleRecords],
    request: SearchRequest,
    *,
    spellings: Spellings,
) -> Found:
    relaxed = relax(query, languages=languages_of(searched), spellings=spellings)
    found = _found(relaxed, searched, skipped, request)
    return replace(found, any_word=spellings, suggestions=spellings)


def _found(
    query: Query,
    searched: Sequence[VisibleRecords],
    skipped: Sequence[VisibleRecords],
    request: SearchRequest,
) -> Found:
    asked = branches(query, searched)
    from_text = _needs_texts(query, asked)
    counted_to = SCORED if from_text else COUNTED_UP_TO
    matches = Matches(asked, counted_to=counted_to, newest=request.newest_first)
    hits, exhausted = _verified(query, matches, request, from_text=from_text)
    if from_text:
        count, exact = _counted_hits(hits, request, exhausted=exhausted)
    else:
        count, exact = min(matches.count, counted_to), matches.count <= counted_to
    return Found(
        hits=hits[: request.limit],
        has_more=len(hits) > request.limit or not exhausted,
        count=count,
        lower_bound=not exact,
        complete=exhausted or len(hits) > request.limit,
        skipped=skipped,
    )


def _verified(
    query: Query, matches: Matches, request: SearchRequest, *, from_text: bool
) -> tuple[list[Hit], bool]:
    """Up to ``limit`` + 1 hits; candidates without the phrase are passed over. The second value
    says whether the candidates could all be read as far as needed."""
    wanted = request.limit + 1
    most = CANDIDATES_READ if from_text else wanted
    hits: list[Hit] = []
    read = 0
    for batch in matches.batches(limit=most, after=request.after, size=CANDIDATES_A_TIME):
        hits.extend(hit for hit in map(judge(query), batch) if hit is not None)
        read += len(batch)
        if len(hits) >= wanted:
            return hits, True
    return hits, read < most


def _counted_hits(
    hits: Sequence[Hit], request: SearchRequest, *, exhausted: bool
) -> tuple[int, bool]:
    """Where texts must be read to know, all the hits at hand are counted, exactly when the first
    page holds them all."""
    first_page = request.after is None
    return len(hits), first_page and exhausted and len(hits) <= request.limit


def _needs_texts(query: Query, asked: Sequence[Branch]) -> bool:
    """Whether some match can only be told from the text: a phrase, or one that is excluded."""
    return any(
        needs_verification(query, languages=branch.visible.connections[0].languages)
        for branch in asked
    )


def _parsed(q: str, visible: Sequence[VisibleRecords]) -> Query:
    """The query, in which only granted searchable fields are names of fields."""
    names = frozenset(name for each in visible for name in searchable_fields(each))
    try:
        query = parse(q, fields=names)
    except QueryError as error:
        raise InvalidRequest(
            message=error.message, param="q", position=error.position, reason=error.code
        ) from error
    return essential(query, languages=languages_of(visible))
