"""Count visible records and matches: in all, by month of their consent time, and by stored counters."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from evidence.access.aggregates import SMALL_GROUP
from evidence.access.ranking.scores import TIME_INDEXED_TEXT, StreamQuery, select_matches
from evidence.access.records import RecordPage, VisibleRecords, link_expression
from evidence.access.scope import Everything, GrantedStream, TimeRange
from evidence.access.sql import (
    SQL,
    ConnectionGroup,
    fetch_all,
    fetch_prepared,
    fill,
    union_all,
    value_table,
)
from evidence.errors import InvalidRequest
from evidence.models.owners import current_owner

SELECT_COUNTERS: Final = """
-- Counters of every stream of some connections. Parameters: owner id, connection ids. One query.
SELECT s.connection_id, s.stream, s.record_count, s.latest_emitted_at, s.latest_declared_at
FROM evidence_streamstate s WHERE s.owner_id = %s AND s.connection_id = ANY(%s)
"""


COUNT_RECORDS: Final = """
-- The number of some visible rows. Part: a count as n per set of connections. One query.
SELECT coalesce(sum(u.n), 0)::bigint FROM ({counts}) u
"""


def count_records(visible: VisibleRecords, where: Sequence[SQL] = ()) -> int:
    """Return the number of visible rows that match ``where``. One query."""
    statement = fill(COUNT_RECORDS, counts=visible.select(SQL("count(*) AS n"), where))
    return int(fetch_all(statement)[0][0])


COUNT_LINKED: Final = """
-- The number of some visible rows by their foreign key or thread. Part: rows with key. One query.
SELECT u.key, count(*) FROM ({rows}) u GROUP BY u.key
"""


def count_linked(visible: VisibleRecords, name: str, keys: Collection[str]) -> Mapping[str, int]:
    """Return the number of visible records by foreign key or thread, of these keys. One query."""
    link = link_expression(visible, name)
    chosen = SQL(" AND ") + link + SQL(" = ANY(%s)", (sorted(keys),))
    rows = visible.select(link + SQL(" AS key"), [chosen])
    return dict(fetch_all(fill(COUNT_LINKED, rows=rows))) if keys else {}


TIME_BOUNDS: Final = """
-- The earliest and latest consent time of some visible rows. Part: low and high per set of connections. One query.
SELECT min(u.low), max(u.high) FROM ({bounds}) u
"""


def time_bounds(
    visible: VisibleRecords, where: Sequence[SQL] = ()
) -> tuple[datetime | None, datetime | None]:
    """Return the earliest and latest consent time of the rows that match ``where``. One query."""
    columns = SQL("min(r.consent_time) AS low, max(r.consent_time) AS high")
    [(earliest, latest)] = fetch_all(fill(TIME_BOUNDS, bounds=visible.select(columns, where)))
    return earliest, latest


FIRST_OF_EACH_TIME: Final = """
-- One record of each consent time. Part: rows with connection, key, time. One query.
SELECT DISTINCT ON (u.consent_time) u.connection_id, u.record_key FROM ({rows}) u
ORDER BY u.consent_time, u.connection_id, u.record_key
"""


def records_at(
    visible: VisibleRecords, times: Iterable[datetime | None], where: Sequence[SQL] = ()
) -> list[tuple[str, str]]:
    """Return connection and key of one record for each of these consent times. One query."""
    instants = [time for time in times if time is not None]
    at = SQL(" AND r.consent_time = ANY(%s)", (instants,))
    columns = SQL("r.connection_id, r.record_key, r.consent_time")
    found = fetch_all(fill(FIRST_OF_EACH_TIME, rows=visible.select(columns, [*where, at])))
    return [(connection_id, key) for connection_id, key in found]


def list_record_ids(
    visible: VisibleRecords, where: Sequence[SQL] = (), *, limit: int
) -> list[tuple[str, str]]:
    """Return connection and key of up to ``limit`` visible rows. One query."""
    rows = visible.select(SQL("r.connection_id, r.record_key"), where)
    found = fetch_all(fill("SELECT u.* FROM ({rows}) u LIMIT {limit}", rows=rows, limit=limit))
    return [(connection_id, key) for connection_id, key in found]


def count_with_witnesses(
    visible: VisibleRecords, where: Sequence[SQL], page: RecordPage
) -> tuple[int, Sequence[tuple[str, str]]]:
    """Return the total and the records that it discloses, by connection and key.

    With filters, a total below ``SMALL_GROUP`` discloses each of its records. One query, and a
    second one if the page does not contain all of them.
    """
    total = count_records(visible, where)
    if not where or total >= SMALL_GROUP:
        return total, ()
    if len(page.records) == total:
        return total, [(r.connection.connection_id, r.record_key) for r in page.records]
    return total, list_record_ids(visible, where, limit=SMALL_GROUP)


@dataclass(frozen=True, slots=True)
class Window:
    """Total and time range of a list.

    ``witnesses`` are the records that these disclose, by connection and key: the earliest and the
    latest, or all of a small list.
    """

    total: int
    earliest_at: datetime | None
    latest_at: datetime | None
    witnesses: Sequence[tuple[str, str]]


def read_window(visible: VisibleRecords, where: Sequence[SQL]) -> Window:
    """Return total and time range. Raises InvalidRequest if the time field is not granted."""
    if not visible.shows(visible.stream.consent_time_field):
        raise InvalidRequest(
            message="window needs the time field of this stream, which the grant does not include.",
            param="window",
        )
    earliest, latest = time_bounds(visible, where)
    total = count_records(visible, where)
    if total < SMALL_GROUP:
        witnesses = list_record_ids(visible, where, limit=SMALL_GROUP)
    else:
        witnesses = records_at(visible, (earliest, latest), where)
    return Window(total, earliest, latest, witnesses)


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
-- Matches per stream, connection and month, with the first and last time of each.
-- Part: rows with number, connection, at, zone. One query.
SELECT u.number, u.connection_id, date_trunc('month', u.at AT TIME ZONE u.zone)::date AS month,
    count(*), min(u.at), max(u.at)
FROM ({rows}) u GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 NULLS LAST
"""
ROW: Final = "%s::int AS number, r.connection_id, r.consent_time AS at, %s::text AS zone"


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
    """Return the number of visible records per stream, connection and month. One query.

    It reads the index on time from one month to the next, so a million records take a third of the
    time of a `GROUP BY`, and a month without records none.
    """
    branches = [
        _months_of(number, group, "UTC" if visible.stream.has_dates_only else time_zone)
        for number, visible in enumerate(streams)
        for group in visible.groups
    ]
    return [MonthCount(*row) for row in fetch_all(union_all(branches))] if branches else []


MONTHS: Final = """
-- Visible records per month of some connections, and those without a time: number of the stream, connection, month,
-- records, first and last time. Each month is counted from the index on time, and leads to the next one.
-- Part: the rows of a connection c. One query per stream and terms.
SELECT {number}::int, c.id, x.month::date, x.records, x.first, x.last
FROM {connections}
CROSS JOIN LATERAL (
    (WITH RECURSIVE m AS (
        SELECT f.first, g.month, (g.month + interval '1 month') AT TIME ZONE {zone} AS until
        FROM (SELECT min(r.consent_time) AS first{rows}) f
        CROSS JOIN LATERAL (SELECT date_trunc('month', f.first AT TIME ZONE {zone}) AS month) g
        WHERE f.first IS NOT NULL
        UNION ALL
        SELECT f.first, g.month, (g.month + interval '1 month') AT TIME ZONE {zone} AS until
        FROM m CROSS JOIN LATERAL (
            SELECT min(r.consent_time) AS first{rows} AND r.consent_time >= m.until
        ) f
        CROSS JOIN LATERAL (SELECT date_trunc('month', f.first AT TIME ZONE {zone}) AS month) g
        WHERE f.first IS NOT NULL
    )
    SELECT m.first, m.month, n.records, n.last FROM m CROSS JOIN LATERAL (
        SELECT count(*) AS records, max(r.consent_time) AS last{rows}
            AND r.consent_time >= m.first AND r.consent_time < m.until
    ) n)
    UNION ALL
    SELECT NULL::timestamptz, NULL::timestamp, count(*), NULL::timestamptz{rows}
        AND r.consent_time IS NULL HAVING count(*) > 0
) x
"""


def _months_of(number: int, group: ConnectionGroup, zone: str) -> SQL:
    ids = [(each,) for each in group.connection_ids]
    return fill(
        MONTHS,
        number=number,
        connections=value_table("c", {"id": "text"}, ids),
        rows=group.rows(SQL("c.id")),
        zone=zone,
    )


def count_matches_by_month(
    queries: Sequence[StreamQuery], *, time_zone: str = "UTC"
) -> list[MonthCount]:
    """Return the number of matches of each query per connection and month. One query."""
    rows = (
        select_matches(query, _row(number, query.visible, time_zone), [query.terms.matching])
        for number, query in enumerate(queries)
    )
    return _counts(list(rows))


ESTIMATE_BY_MONTH: Final = """
-- Estimated matches by connection and month, from the first records of each month.
-- Part: rows with number, connection, month, records, first, last, hit. One query.
SELECT u.number, u.connection_id, u.month, (u.records * avg(u.hit::int))::int, u.first, u.last
FROM ({rows}) u GROUP BY 1, 2, 3, u.records, 5, 6 HAVING bool_or(u.hit) ORDER BY 1, 2, 3 NULLS LAST
"""
SAMPLE: Final = """
SELECT {number}::int AS number, m.*, w.hit FROM {months}
CROSS JOIN LATERAL (
    SELECT r.terms @@ {tsquery}::tsquery AS hit{rows}{condition}
    ORDER BY r.consent_time LIMIT {size}
) w
"""
"""The first records of some months, and whether they match."""
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
            yield fill(
                SAMPLE,
                number=number,
                months=value_table("m", MONTH_COLUMNS, values),
                tsquery=query.terms.matching,
                rows=group.rows(SQL("m.connection_id"), TIME_INDEXED_TEXT),
                condition=SQL(condition),
                size=size,
            )


def _row(number: int, visible: VisibleRecords, time_zone: str) -> SQL:
    zone = "UTC" if visible.stream.has_dates_only else time_zone
    return SQL(ROW, (number, zone))


def _counts(rows: Sequence[SQL], statement: str = COUNT_BY_MONTH) -> list[MonthCount]:
    if not rows:
        return []
    return [MonthCount(*row) for row in fetch_prepared(fill(statement, rows=union_all(rows)))]


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
