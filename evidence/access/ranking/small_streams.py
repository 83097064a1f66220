"""Find matches in small streams of a cluster, with statements of one table.

Citus keeps the plan of a statement that has one table, one connection and no subquery. It plans any other
one for each request, on the coordinator and again on the node, which takes longer than to read a small
stream. The statements of one server read all connections at once, so they have subqueries, and choose
the inverted index with any statistics. A node plans these for their values, and reads few rows at worst.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evidence.access.ranking.scores import (
    SearchHitKey,
    SortKey,
    StreamQuery,
    best_first,
    hit_keys,
    newest_first,
    score_sql,
)
from evidence.access.records import VisibleRecords
from evidence.access.sql import SQL, fetch_all_generic_plan

COUNT_RECORDS = """
-- Stored counts of the records of some connections. Parameters: connection ids. One query per search.
SELECT s.connection_id, s.stream, s.record_count FROM evidence_streamstate s
WHERE s.connection_id = ANY(%s)
"""
SCORE_ALL_ROWS = 1_500
"""In streams of up to this many records, every match is scored and sorted by the node."""
SMALL_STREAM_ROWS = 50_000
"""In streams of up to this many records, FEW_MATCHES are read before anything is counted."""
FEW_MATCHES = 200


def record_counts(streams: Sequence[VisibleRecords]) -> Mapping[tuple[str, str], int]:
    """Return (connection id, stream) -> number of records, without streams that have none. One query.

    Includes records that a grant hides: it may choose how to read, and never what to show.
    """
    ids = sorted({id_ for visible in streams for id_ in visible.connection_for})
    rows = fetch_all_generic_plan(SQL(COUNT_RECORDS, (ids,))) if ids else ()
    return {(id_, stream): count for id_, stream, count in rows if count}


def search_small_streams(
    queries: Sequence[StreamQuery],
    counts: Mapping[tuple[str, str], int],
    *,
    newest: bool,
) -> Iterator["SmallStreamMatches"]:
    """Yield the matches of each connection and stream that is wholly visible, and small or empty.

    At most one query for each, which reads the matches if they are few.
    """
    for number, query in enumerate(queries):
        # Hidden records may not add to the cost; conditions on other tables need a subquery.
        if query.is_restricted or query.visible.where:
            continue
        for id_ in query.visible.connection_for:
            records = counts.get((id_, query.visible.stream.name), 0)
            matches = SmallStreamMatches(number, id_, query.for_connection(id_), newest)
            if records <= SCORE_ALL_ROWS:
                yield matches if records else replace(matches, found=[])
            elif records <= SMALL_STREAM_ROWS:
                hits = matches.fetch(SQL(" LIMIT %s", (FEW_MATCHES + 1,)))
                if len(hits) <= FEW_MATCHES:
                    yield replace(matches, found=hits)


@dataclass(slots=True)
class SmallStreamMatches:
    """The matches of a query in one stream of one connection. ``found`` are all of them, if they were read."""

    number: int
    connection_id: str
    query: StreamQuery
    newest: bool
    found: list[SearchHitKey] | None = None
    _count: int | None = None

    @property
    def count(self) -> int:
        """The number of matches. At most one query."""
        if self.found is not None:
            return len(self.found)
        if self._count is None:
            [[self._count]] = fetch_all_generic_plan(self._select(SQL("count(*)")))
        return self._count

    def hits(self, limit: int, after: SearchHitKey | None) -> list[SearchHitKey]:
        """Return the first ``limit`` hits after a key. At most one query, which also counts."""
        if self.found is None and after is None:
            return self._first(limit)
        if self.found is None:
            self.found = self.fetch()
        key = self._order
        hits = sorted(self.found, key=key)
        return [hit for hit in hits if after is None or key(hit) > key(after)][:limit]

    def fetch(self, end: SQL = SQL("")) -> list[SearchHitKey]:  # noqa: B008 - immutable
        """Return the matches of a statement with this end. One query."""
        return hit_keys(fetch_all_generic_plan(self._select(self._columns()) + end))

    def _first(self, limit: int) -> list[SearchHitKey]:
        by_score = "score DESC, at DESC NULLS LAST, r.record_key"
        order = "at DESC NULLS LAST, score DESC, r.record_key" if self.newest else by_score
        columns = self._columns() + SQL(", count(*) OVER ()")
        statement = self._select(columns) + SQL(f" ORDER BY {order} LIMIT %s", (limit,))
        rows = fetch_all_generic_plan(statement)
        self._count = rows[0][-1] if rows else 0
        return hit_keys([row[:-1] for row in rows])

    def _order(self, hit: SearchHitKey) -> SortKey:
        return newest_first(hit) if self.newest else best_first(hit)

    def _columns(self) -> SQL:
        """Return the columns of a ``SearchHitKey``."""
        query = self.query
        at = "(extract(epoch FROM r.authored_at) * 1000000)" if query.shows_time else "NULL"
        columns = SQL("%s::int AS number, ", (self.number,)) + score_sql(query)
        columns += SQL(f" AS score, {at}::bigint AS at, r.connection_id, r.stream, r.record_key, ")
        return columns + (query.terms.required or SQL("true")) + SQL(" AS is_possible")

    def _select(self, columns: SQL) -> SQL:
        [group] = self.query.visible.groups
        statement = SQL("SELECT ") + columns + SQL(" FROM evidence_searchtext r")
        statement += SQL(" WHERE r.connection_id = %s", (self.connection_id,))
        condition = group.condition.text.replace("r.consent_time", "r.authored_at")
        tested = " AND (r.terms @@ %s::tsquery) IS TRUE"
        matches = tested if self.query.has_few_rows else " AND r.terms @@ %s::tsquery"
        statement += replace(group.condition, text=condition)
        return statement + SQL(matches, (self.query.terms.matching,))
