"""Count visible records and matches: in all, by month of their consent time, and by stored counters."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final, TypeAlias

from evidence.access.granted_streams import GrantedStream, link_expression
from evidence.access.ranking.scores import TIME_INDEXED_TEXT, StreamQuery, select_matches
from evidence.access.records import VisibleRecords
from evidence.access.scope import Everything, TimeRange
from evidence.access.sql import (
    SQL,
    ConnectionGroup,
    fetch_all,
    fetch_prepared,
    union_all,
    value_table,
)
from evidence.models.owners import current_owner

SELECT_COUNTERS: Final = """
-- Counters of every stream of some connections. Parameters: owner id, connection ids. One query.
SELECT s.connection_id, s.stream, s.record_count, s.latest_emitted_at, s.latest_declared_at
FROM evidence_streamstate s WHERE s.owner_id = %s AND s.connection_id = ANY(%s)
"""


def count_records(visible: VisibleRecords, where: Sequence[SQL] = ()) -> int:
    """Return the number of visible rows that match ``where``. One query."""
    branches = visible.select(SQL("count(*) AS n"), where)
    statement = SQL("SELECT coalesce(sum(u.n), 0)::bigint FROM (") + branches + SQL(") u")
    return int(fetch_all(statement)[0][0])


def count_linked(visible: VisibleRecords, name: str, keys: Collection[str]) -> Mapping[str, int]:
    """Return the number of visible records by foreign key or thread, of these keys. One query."""
    link = link_expression(visible, name)
    rows = visible.select(
        link + SQL(" AS key"), [SQL(" AND ") + link + SQL(" = ANY(%s)", (sorted(keys),))]
    )
    statement = SQL("SELECT u.key, count(*) FROM (") + rows + SQL(") u GROUP BY u.key")
    return dict(fetch_all(statement)) if keys else {}


def time_bounds(
    visible: VisibleRecords, where: Sequence[SQL] = ()
) -> tuple[datetime | None, datetime | None]:
    """Return the earliest and latest consent time of the rows that match ``where``. One query."""
    columns = SQL("min(r.consent_time) AS low, max(r.consent_time) AS high")
    branches = visible.select(columns, where)
    statement = SQL("SELECT min(u.low), max(u.high) FROM (") + branches + SQL(") u")
    [(earliest, latest)] = fetch_all(statement)
    return earliest, latest


def records_at(
    visible: VisibleRecords, times: Iterable[datetime | None], where: Sequence[SQL] = ()
) -> list[tuple[str, str]]:
    """Return connection and key of one record for each of these consent times. One query."""
    instants = [time for time in times if time is not None]
    at = SQL(" AND r.consent_time = ANY(%s)", (instants,))
    columns = SQL("r.connection_id, r.record_key, r.consent_time")
    statement = SQL("SELECT DISTINCT ON (u.consent_time) u.connection_id, u.record_key FROM (")
    statement += visible.select(columns, [*where, at])
    order = SQL(") u ORDER BY u.consent_time, u.connection_id, u.record_key")
    return [(connection_id, key) for connection_id, key in fetch_all(statement + order)]


def list_record_ids(
    visible: VisibleRecords, where: Sequence[SQL] = (), *, limit: int
) -> list[tuple[str, str]]:
    """Return connection and key of up to ``limit`` visible rows. One query."""
    rows = visible.select(SQL("r.connection_id, r.record_key"), where)
    statement = SQL("SELECT u.* FROM (") + rows + SQL(") u LIMIT %s", (limit,))
    return [(connection_id, key) for connection_id, key in fetch_all(statement)]


def stored_counts(
    streams: Iterable[VisibleRecords],
) -> Mapping[tuple[str, str], tuple[int, datetime | None]]:
    """Return (connection_id, stream) -> record count and latest emitted time. One query.

    Reads stored counters, so it skips streams of which a grant hides rows. A grant of all declared
    fields gets the latest time over declared fields; a grant of fewer fields gets None, because
    hidden changes move that time.
    """
    streams_by_key = {
        (facts.connection_id, visible.stream.name): visible
        for visible in streams
        if visible.hides_no_rows
        for facts in visible.connections
    }
    if not streams_by_key:
        return {}
    connection_ids = sorted({connection_id for connection_id, _ in streams_by_key})
    rows = fetch_all(SQL(SELECT_COUNTERS, (current_owner(), connection_ids)))
    counts: dict[tuple[str, str], tuple[int, datetime | None]]
    counts = dict.fromkeys(streams_by_key, (0, None))
    for connection_id, stream, records, *latest in rows:
        if visible := streams_by_key.get((connection_id, stream)):
            counts[connection_id, stream] = (records, _visible_latest(visible, *latest))
    return counts


def _visible_latest(
    visible: VisibleRecords, latest: datetime | None, latest_declared: datetime | None
) -> datetime | None:
    """Return the latest time that counts only fields which every grant shows, if any."""
    if all(isinstance(grant.terms.fields, Everything) for grant in visible.granted):
        return latest
    return latest_declared if all(map(visible.shows, visible.stream.fields)) else None


COUNT_BY_MONTH: Final = """
-- Records per stream, connection and month, with the first and last time of each. In another time
-- zone, the last day of the year 9999 could be in the year 10000, which Python does not know.
-- greatest and least ignore a null, so records without a time are an own case.
-- Parameters: those of the rows. One query.
SELECT u.number, u.connection_id, CASE WHEN u.at IS NOT NULL THEN date_trunc(
        'month', greatest('0001-01-02Z', least(u.at, '9999-12-30Z')) AT TIME ZONE u.zone
    )::date END AS month,
    count(*), min(u.at), max(u.at)
FROM ({rows}) u GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 NULLS LAST
"""
ROW: Final = "%s::int AS number, r.connection_id, r.consent_time AS at, %s::text AS zone"
Fetch: TypeAlias = Callable[[SQL], Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class MonthCount:
    """Records of one connection and stream in one month; `month` is None without a time."""

    number: int
    """Position of the stream, or of the query, in the arguments."""
    connection_id: str
    month: date | None
    records: int
    first: datetime | None
    last: datetime | None


def count_by_month(
    streams: Sequence[VisibleRecords], *, time_zone: str = "UTC"
) -> list[MonthCount]:
    """Return the number of visible records per stream, connection and month. One query."""
    rows = (each.select(_row(number, each, time_zone)) for number, each in enumerate(streams))
    return _counts(list(rows))


def count_matches_by_month(
    queries: Sequence[StreamQuery], *, time_zone: str = "UTC"
) -> list[MonthCount]:
    """Return the number of matches of each query per connection and month. One query."""
    rows = (
        select_matches(query, _row(number, query.visible, time_zone), [query.terms.matching])
        for number, query in enumerate(queries)
    )
    return _counts(list(rows), fetch_prepared)


ESTIMATE_BY_MONTH: Final = """
-- Estimated matches by connection and month, from the first records of each month.
-- Parameters: those of the rows. One query.
SELECT u.number, u.connection_id, u.month, (u.records * avg(u.hit::int))::int, u.first, u.last
FROM ({rows}) u GROUP BY 1, 2, 3, u.records, 5, 6 HAVING bool_or(u.hit) ORDER BY 1, 2, 3 NULLS LAST
"""
SAMPLE_ROWS: Final = 12_000
"""Rows that an estimate reads, spread evenly over all months of all connections."""
MONTH_COLUMNS: Final = {
    "connection_id": "text", "month": "date", "records": "int",
    "first": "timestamptz", "last": "timestamptz",
}  # fmt: skip


def estimate_matches_by_month(
    queries: Sequence[StreamQuery], months: Mapping[tuple[str, str], Sequence[MonthCount]]
) -> list[MonthCount]:
    """Estimate the matches of each query by month, from the counts of (connection_id, stream).

    Months of few records are counted exactly. For streams that are visible as a whole. One query.
    """
    size = max(1, SAMPLE_ROWS // max(1, sum(map(len, months.values()))))
    return _counts(
        [
            rows
            for number, query in enumerate(queries)
            for group in query.visible.groups
            for connection_id in group.connection_ids
            for rows in _sampled(
                number, query, group, months.get((connection_id, group.stream), ()), size
            )
        ],
        fetch_prepared,
        ESTIMATE_BY_MONTH,
    )


def _sampled(
    number: int, query: StreamQuery, group: ConnectionGroup, months: Sequence[MonthCount], size: int
) -> Iterator[SQL]:
    """Yield rows that say whether a record matches, with the month that it stands for."""
    timed = [each for each in months if each.first is not None]
    untimed = [each for each in months if each.first is None]
    for counts, condition in (
        (timed, " AND r.consent_time BETWEEN m.first AND m.last"),
        (untimed, " AND r.consent_time IS NULL"),
    ):
        values = [
            (each.connection_id, each.month, each.records, each.first, each.last) for each in counts
        ]
        if values:
            rows = SQL("SELECT %s::int AS number, m.*, w.hit FROM ", (number,))
            rows += value_table("m", MONTH_COLUMNS, values)
            rows += SQL(
                " CROSS JOIN LATERAL (SELECT r.terms @@ %s::tsquery AS hit", (query.terms.matching,)
            )
            rows += group.rows(SQL("m.connection_id"), TIME_INDEXED_TEXT)
            yield rows + SQL(f"{condition} ORDER BY r.consent_time LIMIT %s) w", (size,))


def _row(number: int, visible: VisibleRecords, time_zone: str) -> SQL:
    zone = "UTC" if visible.stream.has_dates_only else time_zone
    return SQL(ROW, (number, zone))


def _counts(
    rows: Sequence[SQL], fetch: Fetch = fetch_all, statement: str = COUNT_BY_MONTH
) -> list[MonthCount]:
    if not rows:
        return []
    union = union_all(rows)
    found = fetch(SQL(statement.format(rows=union.text), union.values))
    return [MonthCount(*row) for row in found]


def within(visible: VisibleRecords, *times: TimeRange) -> VisibleRecords:
    """Return the records of an unrestricted stream within time ranges that do not overlap.

    Several ranges are for pages of records, which read each of them by index, and not for searches.
    """
    granted = (
        GrantedStream(each.grant_id, replace(each.terms, time=time), each.connections)
        for each in visible.granted
        for time in times
    )
    return visible.restricted_to(*granted)


def not_after(visible: VisibleRecords, until: datetime) -> VisibleRecords:
    """Return the records before a moment, and those without a time."""
    return visible.filter([], period=[SQL(" AND (r.consent_time < %s) IS NOT FALSE", (until,))])


def outside(visible: VisibleRecords, since: datetime, until: datetime) -> VisibleRecords:
    """Return the records with a time before `since`, or not before `until`; for searches."""
    condition = SQL(" AND (r.consent_time < %s OR r.consent_time >= %s)", (since, until))
    return visible.filter([], period=[condition])
