"""Return ranked matches over visible records, choosing the cheapest exact strategy.

If few rows match, or if scores have too many tier combinations, every match is scored. Otherwise
``evidence.access.ranking.top_k`` finds the same hits without reading all matches. The strategy changes
the cost of an answer, never its content.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Protocol

from evidence.access.ranking.match_counts import count_matches
from evidence.access.ranking.scores import (
    TIME_INDEXED_TEXT,
    all_hits,
    best_first,
    count_and_first_hits,
    first_hits,
    hit_key,
    newest_first,
)
from evidence.access.ranking.scores import CompiledQuery as CompiledQuery
from evidence.access.ranking.scores import HitPosition as HitPosition
from evidence.access.ranking.scores import SearchHitKey as SearchHitKey
from evidence.access.ranking.scores import StreamQuery as StreamQuery
from evidence.access.ranking.top_k import scan_newest, top_hits
from evidence.access.records import RECORD_COLUMNS, VisibleRecord, VisibleRecords
from evidence.access.sql import SQL, fetch_prepared, union_all, value_table


class HitLocation(Protocol):
    """The location of a hit: a record of the stream ``number``."""

    @property
    def number(self) -> int: ...
    @property
    def connection_id(self) -> str: ...
    @property
    def record_key(self) -> str: ...


def load_records(
    streams: Sequence[VisibleRecords], locations: Sequence[HitLocation]
) -> list[VisibleRecord | None]:
    """Return the record of each location, None if it is not visible any more. One query."""
    branches = []
    for number, visible in enumerate(streams):
        columns = SQL(f"SELECT %s::int AS number, {RECORD_COLUMNS} FROM ", (number,))
        for group in visible.groups:
            keys = [
                (each.connection_id, each.record_key)
                for each in locations
                if each.number == number and each.connection_id in group.connection_ids
            ]
            if keys:
                table = value_table("n", {"id": "text", "key": "text"}, keys)
                branches.append(columns + table + group.join_row(SQL("n.id"), "n.key"))
    rows = fetch_prepared(union_all(branches)) if branches else ()
    found = {(number, *row[:2]): row for number, *row in rows}
    places = [(each.number, each.connection_id, each.record_key) for each in locations]
    return [
        streams[place[0]].project(tuple(found[place])) if place in found else None
        for place in places
    ]


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
    """All matches of a query, best first or newest first, counted up to ``counted_to``.

    The cheapest strategy finds them.
    """

    def __init__(
        self, queries: Sequence[StreamQuery], *, counted_to: int, newest: bool = False
    ) -> None:
        self._given = queries
        self._counted_to = counted_to
        self._newest_first = newest
        self._count: int | None = None

    @cached_property
    def _queries(self) -> list[StreamQuery]:
        return mark_few_visible(self._given)

    @property
    def count(self) -> int:
        """The number of matches, exact up to ``counted_to``; beyond it some larger number."""
        if self._count is None:
            self._count = count_matches(self._queries, max_count=self._counted_to)
        return self._count

    def page(self, *, limit: int, after: HitPosition | None = None) -> list[Match]:
        """Return the next ``limit`` matches with their records.

        Three queries if there are few matches, one of which counts; else up to one per score.
        """
        return self.load(self.hits(limit=limit, after=after))

    def hits(self, *, limit: int, after: HitPosition | None) -> list[SearchHitKey]:
        """Return the next ``limit`` matches without their records."""
        start_after = None if after is None else hit_key(after)
        queries, newest = self._queries, self._newest_first
        if queries and all(query.has_few_rows for query in queries):
            count, hits = count_and_first_hits(
                queries, limit=limit, after=start_after, newest=newest
            )
            self._count = count or self._count
            return hits
        if self.count <= SORT_IN_PYTHON_MAX:
            return self._sort_in_python(limit, start_after)
        # A page of all matches has every score, so each score alone would find nothing sooner.
        if self.count > SCORE_ALL_MAX and not newest and self.count >= limit:
            exceeds_count = self.count > self._counted_to
            return top_hits(queries, limit=limit, after=start_after, exceeds_count=exceeds_count)
        if self.count > SCORE_ALL_MAX:
            hits_by_time = self._scan_newest(limit, start_after)
            if hits_by_time is not None:
                return hits_by_time
        return first_hits(queries, limit=limit, after=start_after, newest=newest)

    def load(self, hits: Sequence[SearchHitKey]) -> list[Match]:
        """Return the hits with their records, which are checked for visibility again. One query."""
        streams = [query.visible for query in self._given]
        records = load_records(streams, hits)
        return [
            Match(streams[hit.number], record, hit.rank)
            for hit, record in zip(hits, records, strict=True)
            if record is not None
        ]

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
    few = {
        number for number, count in fetch_prepared(union_all(visible)) if count <= FEW_VISIBLE_ROWS
    }
    return [
        replace(query, has_few_rows=query.has_few_rows or number in few)
        for number, query in enumerate(queries)
    ]
