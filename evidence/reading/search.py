"""``GET /v1/search``: which streams are searched, and by which ranking."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from evidence.access.gate import Gate
from evidence.access.ranking.vectors import Scoped
from evidence.access.records import VisibleRecords
from evidence.errors import GrantPaused, InvalidRequest, NotFound, StreamNotGranted
from evidence.reading import records
from evidence.search import hybrid, lexical, semantic
from evidence.search.analysis.query_parser import parse
from evidence.search.analysis.query_relaxation import essential
from evidence.search.analysis.query_tree import Query, QueryError
from evidence.search.query_planner import (
    HYBRID,
    SEMANTIC,
    is_stale,
    languages_of,
    meanings,
    searchable_fields,
)
from evidence.search.results import Found, SearchRequest


def search(gate: Gate, request: SearchRequest) -> Found:
    """One page of hits. Raises ``InvalidRequest`` naming what of the request cannot be."""
    visible = _chosen(gate, request)
    query = _parsed(request.q, visible)
    if request.mode == SEMANTIC:
        # No word is looked up, so it does not matter how words are indexed.
        return semantic.search(query, meanings(visible), request)
    if request.mode == HYBRID:
        found = hybrid.search(query, visible, meanings(visible), request)
    else:
        found = lexical.search(query, visible, request)
    return replace(found, reindexing=list(_reindexing(visible)))


def _reindexing(visible: Sequence[VisibleRecords]) -> Iterator[Scoped]:
    for each in visible:
        if searchable_fields(each):
            for facts in each.connections:
                if is_stale(facts):
                    yield facts.connection_id, each.stream.name


def _chosen(gate: Gate, request: SearchRequest) -> Sequence[VisibleRecords]:
    visible = _named(gate, request)
    if not request.filters:
        return visible
    if len(visible) != 1 or request.streams is None:
        raise InvalidRequest(
            message="A filter is for one stream of one source; name it with streams[].",
            param="filter",
            next_step="Add streams[]=NAME, and connection_id where several sources have it.",
        )
    return [visible[0].chosen(records.chosen(visible[0], request.filters))]


def _named(gate: Gate, request: SearchRequest) -> Sequence[VisibleRecords]:
    try:
        return gate.streams(names=request.streams, connection_id=request.connection_id)
    except (GrantPaused, NotFound, StreamNotGranted) as refusal:
        if refusal.param == "stream":
            refusal.param = "streams"
        raise


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
