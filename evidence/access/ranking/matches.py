"""Return ranked matches over visible records, choosing the cheapest exact strategy.

If few rows match, or if scores have too many tier combinations, every match is scored. Otherwise
``evidence.access.ranking.top_k`` finds the same hits without reading all matches. The strategy changes
the cost of an answer, never its content.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Protocol

from django.conf import settings

from evidence.access.ranking.match_counts import count_matches
from evidence.access.ranking.scores import (
    TIME_INDEXED_TEXT,
    all_hits,
    best_first,
    by_node,
    count_and_first_hits,
    first_hits,
    hit_key,
    newest_first,
)
from evidence.access.ranking.scores import CompiledQuery as CompiledQuery
from evidence.access.ranking.scores import HitPosition as HitPosition
from evidence.access.ranking.scores import SearchHitKey as SearchHitKey
from evidence.access.ranking.scores import StreamQuery as StreamQuery
from evidence.access.ranking.small_streams import (
    SMALL_STREAM_ROWS,
    SmallStreamMatches,
    record_counts,
    search_small_streams,
)
from evidence.access.ranking.top_k import scan_newest, top_hits
from evidence.access.records import RECORD_COLUMNS, VisibleRecord, VisibleRecords
from evidence.access.sql import (
    SQL,
    ConnectionGroup,
    fetch_all_generic_plan,
    fetch_union,
    text_array,
    value_tables,
)


class HitLocation(Protocol):
    """The location of a hit: a record of the stream ``number``."""

    @property
    def number(self) -> int: ...
    @property
    def connection_id(self) -> str: ...
    @property
    def record_key(self) -> str: ...


def load_records(
    streams: Sequence[VisibleRecords],
    locations: Sequence[HitLocation],
    *,
    small: Set[tuple[str, str]] = frozenset(),
) -> list[VisibleRecord | None]:
    """Return the record of each location, None if it is not visible any more. One query.

    On Citus one for each connection, or stream of it if that is one of the ``small`` ones.
    """
    rows: list[tuple[Any, ...]] = []
    branches = []
    for number, visible in enumerate(streams):
        columns = SQL(f"SELECT %s::int AS number, {RECORD_COLUMNS} FROM ", (number,))
        for group in visible.groups:
            keys = [
                (each.connection_id, each.record_key)
                for each in locations
                if each.number == number and each.connection_id in group.connection_ids
            ]
            if keys and {(id_, visible.stream.name) for id_, _ in keys} <= small:
                rows += fetch_all_generic_plan(columns + _records_with_keys(group, keys))
                continue
            tables = value_tables("n", {"id": "text", "key": "text"}, keys) if keys else ()
            row = group.join_row(SQL("n.id"), "n.key")
            branches += [columns + table + row for table in tables]
    rows += fetch_union(branches)
    found = {(number, *row[:2]): row for number, *row in rows}
    places = [(each.number, each.connection_id, each.record_key) for each in locations]
    return [
        streams[place[0]].project(tuple(found[place])) if place in found else None
        for place in places
    ]


def _records_with_keys(group: ConnectionGroup, keys: Sequence[tuple[str, str]]) -> SQL:
    """Return FROM and WHERE for records of one connection, of which Citus keeps the plan.

    With outdated statistics its node could read the whole stream.
    """
    [connection_id] = {id_ for id_, _ in keys}
    rows = SQL("evidence_record r WHERE r.connection_id = %s", (connection_id,)) + group.condition
    record_keys = text_array(key for _, key in keys)
    return rows + SQL(" AND r.record_key = ANY(%s::text[])", (record_keys,))


SORT_IN_PYTHON_MAX = 200
"""Up to this many matches are fetched and sorted in Python."""
SCORE_ALL_MAX = 1_500
"""Up to this many matches are scored and sorted by the database."""
RECENCY_SCAN_SIZE = 250
"""Number of newest rows of each connection to scan first."""
MAX_RECENCY_SCAN_SIZE = 16_000


@dataclass(frozen=True, slots=True)
class Match:
    """A record with its position in the order of hits."""

    visible: VisibleRecords
    record: VisibleRecord
    rank: HitPosition


class Matches:
    """All matches of a query, best first or newest first, counted up to ``counted_to``."""

    def __init__(
        self, queries: Sequence[StreamQuery], *, counted_to: int, newest: bool = False
    ) -> None:
        self._queries = queries
        self._streams = [query.visible for query in queries]
        self._counted_to = counted_to
        self._newest_first = newest

    @cached_property
    def _record_counts(self) -> Mapping[tuple[str, str], int]:
        """The records of each connection and wholly visible stream on Citus; empty on one server."""
        if not settings.PDPP_DISTRIBUTED:
            return {}
        return record_counts([each.visible for each in self._queries if not each.is_restricted])

    @cached_property
    def _nodes(self) -> "Sequence[NodeMatches | SmallStreamMatches]":
        newest, small = self._newest_first, list[SmallStreamMatches]()
        if settings.PDPP_DISTRIBUTED:
            small += search_small_streams(self._queries, self._record_counts, newest=newest)
        parts = by_node(self._queries, {(each.number, each.connection_id) for each in small})
        others = (NodeMatches(part, counted_to=self._counted_to, newest=newest) for part in parts)
        return [*small, *others]

    @property
    def count(self) -> int:
        """The number of matches, exact up to ``counted_to``; beyond it some larger number."""
        total = 0
        for node in self._nodes:
            total += node.count
            if total > self._counted_to:
                break
        return total

    def page(self, *, limit: int, after: HitPosition | None = None) -> list[Match]:
        """Return the next ``limit`` matches with their records.

        Three queries if there are few matches, one of which counts; else up to one per score.
        """
        return self.load(self.hits(limit=limit, after=after))

    def hits(self, *, limit: int, after: HitPosition | None) -> list[SearchHitKey]:
        """Return the next ``limit`` matches without their records."""
        start_after = None if after is None else hit_key(after)
        hits = [hit for node in self._nodes for hit in node.hits(limit, start_after)]
        order = newest_first if self._newest_first else best_first
        return sorted(hits, key=order)[:limit] if len(self._nodes) > 1 else hits

    def load(self, hits: Sequence[SearchHitKey]) -> list[Match]:
        """Return the hits with their records, which are checked for visibility again. One query."""
        counts = self._record_counts
        small = {key for key, records in counts.items() if records <= SMALL_STREAM_ROWS}
        records = load_records(self._streams, hits, small=small)
        return [
            Match(self._streams[hit.number], record, hit.rank)
            for hit, record in zip(hits, records, strict=True)
            if record is not None
        ]


class NodeMatches:
    """The matches of queries that one node answers, by number. The cheapest strategy finds them."""

    def __init__(
        self, queries: Mapping[int, StreamQuery], *, counted_to: int, newest: bool
    ) -> None:
        self._numbers = list(queries)
        self._queries = mark_few_visible(list(queries.values()))
        self._counted_to = counted_to
        self._newest_first = newest
        self._count: int | None = None

    @property
    def count(self) -> int:
        """The number of matches, exact up to ``counted_to``; beyond it some larger number."""
        if self._count is None:
            self._count = count_matches(self._queries, max_count=self._counted_to)
        return self._count

    def hits(self, limit: int, after: SearchHitKey | None) -> list[SearchHitKey]:
        """Return the first ``limit`` hits after a key."""
        hits = self._hits(limit, after)
        if self._numbers == list(range(len(self._numbers))):
            return hits
        return [hit._replace(number=self._numbers[hit.number]) for hit in hits]

    def _hits(self, limit: int, after: SearchHitKey | None) -> list[SearchHitKey]:
        queries, newest = self._queries, self._newest_first
        if queries and all(query.has_few_rows for query in queries):
            count, hits = count_and_first_hits(queries, limit=limit, after=after, newest=newest)
            self._count = count or self._count
            return hits
        if self.count <= SORT_IN_PYTHON_MAX:
            return self._sort_in_python(limit, after)
        # A page of all matches has every score, so each score alone would find nothing sooner.
        if self.count > SCORE_ALL_MAX and not newest and self.count >= limit:
            exceeds_count = self.count > self._counted_to
            return top_hits(queries, limit=limit, after=after, exceeds_count=exceeds_count)
        if self.count > SCORE_ALL_MAX:
            hits_by_time = self._scan_newest(limit, after)
            if hits_by_time is not None:
                return hits_by_time
        return first_hits(queries, limit=limit, after=after, newest=newest)

    def _sort_in_python(self, limit: int, after: SearchHitKey | None) -> list[SearchHitKey]:
        if not self.count:
            return []
        key = newest_first if self._newest_first else best_first
        hits = sorted(all_hits(self._queries), key=key)
        return [hit for hit in hits if after is None or key(hit) > key(after)][:limit]

    def _scan_newest(self, limit: int, after: SearchHitKey | None) -> list[SearchHitKey] | None:
        """Return the newest matches by the index on time, or None if too many rows must be scanned."""
        if not all(query.shows_time for query in self._queries):
            return None
        connections = sum(
            len(group.connection_ids) for query in self._queries for group in query.visible.groups
        )
        size = RECENCY_SCAN_SIZE
        while size <= MAX_RECENCY_SCAN_SIZE:
            if size * connections > self.count and self.count <= self._counted_to:
                return None  # All matches are fewer rows.
            scan = scan_newest(self._queries, after, size=size)
            hits = sorted(scan.hits, key=newest_first)
            if after is not None:
                hits = [hit for hit in hits if newest_first(hit) > newest_first(after)]
            if len(hits) >= limit and scan.is_complete_until(hits[limit - 1]):
                return hits[:limit]
            complete = sum(map(scan.is_complete_until, hits))
            size = size * max(4, min(16, 3 * limit // max(complete, 1))) // 2
        return None


FEW_VISIBLE_ROWS: Final = 10_000
"""Up to this many visible rows, test each row for a match."""


def mark_few_visible(queries: Sequence[StreamQuery]) -> list[StreamQuery]:
    """Return the queries, with ``has_few_rows`` set if their grants show only few rows.

    One query, or none if no grant restricts times or records.
    """
    restricted = [number for number, query in enumerate(queries) if query.is_restricted]
    if not restricted:
        return list(queries)
    visible = (
        SQL("SELECT %s::int, count(*) FROM (SELECT 1 FROM (", (number,))
        + queries[number].visible.select(SQL("1"), source=TIME_INDEXED_TEXT)
        + SQL(f") r LIMIT {FEW_VISIBLE_ROWS + 1}) c")
        for number in restricted
    )
    few = {number for number, count in fetch_union(visible) if count <= FEW_VISIBLE_ROWS}
    return [
        replace(query, has_few_rows=query.has_few_rows or number in few)
        for number, query in enumerate(queries)
    ]
