"""Answer a search request: choose streams, filters and mode."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from evidence.access.gate import Gate
from evidence.access.ranking.matches import count_matches
from evidence.access.ranking.vectors import StreamKey
from evidence.access.record_counts import (
    MonthCount,
    count_matches_by_month,
    estimate_matches_by_month,
)
from evidence.access.records import VisibleRecords
from evidence.errors import (
    AmbiguousConnection,
    GrantPaused,
    InvalidRequest,
    NotFound,
    StreamNotGranted,
)
from evidence.read import filters
from evidence.read.filters import has_own_time
from evidence.search import hybrid, lexical, semantic
from evidence.search.analysis.query import Query, QueryError, parse
from evidence.search.analysis.query_relaxation import match_any_word, without_stop_words
from evidence.search.lexical import COUNT_LIMIT
from evidence.search.query_planner import is_stale, plan_queries, query_languages, searchable_fields
from evidence.search.results import SearchRequest, SearchResult
from evidence.search.semantic import HYBRID, SEMANTIC, semantic_scope


def search(gate: Gate, request: SearchRequest) -> SearchResult:
    """Return one page of hits. Raises InvalidRequest naming the invalid parameter."""
    visible = _filtered_streams(gate, request)
    asked = _parse_query(request, visible)
    if request.mode == SEMANTIC:
        # Semantic search looks up no words, so a stale index does not matter.
        return semantic.search(asked, semantic_scope(visible), request)
    query = without_stop_words(asked, languages=query_languages(visible))
    if request.mode == HYBRID:
        question = semantic.plain_words(asked, quoted=False)
        result = hybrid.search(query, question, visible, semantic_scope(visible), request)
    else:
        result = lexical.search(query, visible, request)
    return replace(result, asked=query, reindexing=list(_stale_streams(visible)))


MonthCounts: TypeAlias = Callable[[Sequence[VisibleRecords]], Sequence[MonthCount]]


@dataclass(frozen=True, slots=True)
class MatchCounts:
    """Matches of a search by stream, connection and month; estimated if there are very many."""

    months: Sequence[tuple[VisibleRecords, MonthCount]] = ()
    is_estimate: bool = False


def count_by_month(
    gate: Gate, found: SearchResult, *, time_zone: str, month_counts: MonthCounts
) -> MatchCounts:
    """Return the matches in every stream of the gate, which must show its streams as a whole.

    More than COUNT_LIMIT are estimated from ``month_counts``, the number of all records by month. A phrase
    is not verified in the text, so the counts of such a query are upper bounds. Up to four queries.
    """
    if found.asked is None:
        return MatchCounts()
    searched = [visible for visible in gate.streams() if searchable_fields(visible)]
    query = found.asked
    if found.any_word is not None:
        languages = query_languages(searched)
        query = match_any_word(query, languages=languages, spellings=found.any_word)
    plans = plan_queries(query, searched)
    is_estimate = count_matches(plans, max_count=COUNT_LIMIT) > COUNT_LIMIT
    if is_estimate:
        months: dict[tuple[str, str], list[MonthCount]] = {}
        for each in month_counts(searched):
            key = each.connection_id, searched[each.number].stream.name
            months.setdefault(key, []).append(each)
        counts = estimate_matches_by_month(plans, months)
    else:
        counts = count_matches_by_month(plans, time_zone=time_zone)
    return MatchCounts([(plans[each.number].visible, each) for each in counts], is_estimate)


def _stale_streams(visible: Sequence[VisibleRecords]) -> Iterator[StreamKey]:
    for stream in filter(searchable_fields, visible):
        for facts in filter(is_stale, stream.connections):
            yield facts.connection_id, stream.stream.name


def _filtered_streams(gate: Gate, request: SearchRequest) -> Sequence[VisibleRecords]:
    visible: Sequence[VisibleRecords] = _requested_streams(gate, request)
    if request.restrict is not None:
        visible = [request.restrict(stream) for stream in visible]
    if request.filters:
        stream = _one_stream(visible, request)
        visible = [stream.filter(filters.parse_filters(stream, request.filters))]
    if request.since is None and request.until is None:
        return visible
    # A stream without a time of its own has no record in any period, unless it was named.
    timed = [stream for stream in visible if has_own_time(stream)]
    return [_in_period(stream, request) for stream in timed or visible]


def _in_period(stream: VisibleRecords, request: SearchRequest) -> VisibleRecords:
    period = filters.parse_period(stream, request.since, request.until)
    if stream.stream.event_time_field == stream.stream.consent_time_field:
        return stream.filter([], period=period)
    return stream.filter(period)


def _one_stream(visible: Sequence[VisibleRecords], request: SearchRequest) -> VisibleRecords:
    """Return the stream to filter. Raises AmbiguousConnection if several sources have it."""
    if request.streams is None or len({stream.stream.name for stream in visible}) != 1:
        raise InvalidRequest(
            message="filter needs one stream of one source; name it with streams.",
            param="filter",
            next_step="Name one stream with streams, and connection_id if several sources have it.",
        )
    if len(visible) > 1:
        raise AmbiguousConnection(
            [candidate for stream in visible for candidate in stream.candidates()],
            message="Several sources have this stream; filter needs one: name it by connection_id.",
        )
    return visible[0]


def _requested_streams(gate: Gate, request: SearchRequest) -> Sequence[VisibleRecords]:
    try:
        return gate.streams(names=request.streams, connection_id=request.connection_id)
    except (GrantPaused, NotFound, StreamNotGranted) as error:
        if error.param == "stream":
            error.param = "streams"
        raise


def _parse_query(request: SearchRequest, visible: Sequence[VisibleRecords]) -> Query:
    """Return the query; only granted searchable fields count as field names."""
    names = frozenset(name for stream in visible for name in searchable_fields(stream))
    try:
        return parse(request.q, fields=names, exact=request.exact)
    except QueryError as error:
        raise InvalidRequest(
            message=error.message, param="q", position=error.position, reason=error.code
        ) from error
