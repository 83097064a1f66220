"""Lexical search with proof: hits over all matches, each with the passages that made it one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evidence.access.gate import Gate
from evidence.access.matches import Branch, Rank, counted, ranked
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
    """Two queries beyond the token's: the hits and their count. More when no record has all the
    words: for other spellings, then two when any word will do; and further pages of candidates
    when a phrase is looked for."""
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
    hits, exhausted = _verified(query, asked, request)
    count, exact = _count(query, asked, hits, request, exhausted=exhausted)
    return Found(
        hits=hits[: request.limit],
        has_more=len(hits) > request.limit or not exhausted,
        count=count,
        lower_bound=not exact,
        complete=exhausted or len(hits) > request.limit,
        skipped=skipped,
    )


def _verified(
    query: Query, asked: Sequence[Branch], request: SearchRequest
) -> tuple[list[Hit], bool]:
    """Up to ``limit`` + 1 hits; candidates without the phrase are passed over. The second value
    says whether the candidates could all be read as far as needed."""
    wanted = request.limit + 1
    from_text = _needs_texts(query, asked)
    hits: list[Hit] = []
    after = request.after
    read = 0
    while len(hits) < wanted:
        step = max(wanted, CANDIDATES_A_TIME) if from_text else wanted - len(hits)
        page = ranked(asked, limit=step, after=after, newest_first=request.newest_first)
        hits.extend(hit for hit in map(judge(query), page) if hit is not None)
        read += len(page)
        if len(page) < step:
            return hits, True
        if read >= CANDIDATES_READ:
            return hits, False
        after = page[-1].rank
    return hits, True


def _count(
    query: Query,
    asked: Sequence[Branch],
    hits: Sequence[Hit],
    request: SearchRequest,
    *,
    exhausted: bool,
) -> tuple[int, bool]:
    """How many match in all, and whether that is exact. Where texts must be read to know, all the
    hits at hand are counted, exactly when the first page holds them all."""
    if _needs_texts(query, asked):
        first_page = request.after is None
        return len(hits), first_page and exhausted and len(hits) <= request.limit
    count = counted(asked, most=COUNTED_UP_TO)
    return min(count, COUNTED_UP_TO), count <= COUNTED_UP_TO


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
