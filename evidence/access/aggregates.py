"""Count and aggregate visible records, in one statement.

A number over few records reveals those records, so each statement also returns witnesses: the
records that the ledger names. All records behind fewer than ``SMALL_GROUP`` are witnesses, and one
record of each larger group that is shown, and the record of a minimum or maximum.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Literal
from zoneinfo import available_timezones

from evidence.access.granted_streams import typed_column
from evidence.access.records import RecordKey, VisibleRecords
from evidence.access.scope import Everything
from evidence.access.sql import SQL, fetch_all
from evidence.declarations.declaration import Field

Metric = Literal["count", "count_distinct", "sum", "min", "max"]
METRICS: Final = ("count", "count_distinct", "sum", "min", "max")
GRANULARITIES: Final = ("minute", "hour", "day", "week", "month", "quarter", "year")

_METRIC_SQL: Final = {
    "count": "count(*)",
    "count_distinct": "count(DISTINCT u.v)",
    "sum": "sum(u.v)",
    "min": "min(u.v)",
    "max": "max(u.v)",
}
ROW_ID: Final = SQL(", r.connection_id, r.record_key")
_BUCKET_FORMATS: Final = {"minute": 'YYYY-MM-DD"T"HH24:MI', "hour": 'YYYY-MM-DD"T"HH24:00'}

SMALL_GROUP: Final = 5
"""A number over fewer records than this discloses each of them."""

TOTAL: Final = """
-- One value over all matching rows, and its witnesses per connection. Reads the rows again only to find
-- witnesses: behind few rows, or behind a minimum or maximum.
-- Parameters: those of the rows, SMALL_GROUP, SMALL_GROUP. One query.
WITH u AS NOT MATERIALIZED ({rows}),
k AS MATERIALIZED (SELECT {measure} AS m, count(*) AS n FROM u)
SELECT k.m, k.n, w.connection_id, w.witnesses
FROM k LEFT JOIN LATERAL (
    SELECT u.connection_id,
        CASE WHEN k.n < %s THEN array_agg(u.record_key) ELSE ARRAY[min(u.record_key)] END AS witnesses
    FROM u WHERE k.n < %s OR {extreme} GROUP BY u.connection_id
) w ON true
ORDER BY w.connection_id
"""
GROUPED: Final = """
-- The first groups, and the witnesses of each per connection. The rows beyond the limit are one more
-- group, without a place; its records are witnesses if there are few.
-- Parameters: those of the key and rows, limit, SMALL_GROUP, SMALL_GROUP, those of the shown key. One query.
WITH u AS NOT MATERIALIZED (
    SELECT i.v, {key} AS key, i.connection_id, i.record_key FROM ({rows}) i
),
k AS MATERIALIZED (
    SELECT g.*, row_number() OVER (ORDER BY {order}) AS place FROM (
        SELECT u.key, {measure} AS m, count(*) AS n, sum(count(*)) OVER () AS records
        FROM u GROUP BY 1
    ) g ORDER BY place LIMIT %s
),
o AS MATERIALIZED (SELECT max(k.records) - sum(k.n) AS n FROM k),
w AS (
    SELECT x.place, x.connection_id, bool_or(x.extreme) AS extreme,
        coalesce(
            array_agg(x.record_key) FILTER (WHERE x.n < %s),
            ARRAY[coalesce(min(x.record_key) FILTER (WHERE x.extreme), min(x.record_key))]
        ) AS witnesses
    FROM (
        SELECT k.place, coalesce(k.n, o.n) AS n, {extreme} AS extreme, u.connection_id, u.record_key
        FROM u CROSS JOIN o
        LEFT JOIN k ON (u.key IS NULL) = (k.key IS NULL)
            AND coalesce(u.key, {null}) = coalesce(k.key, {null})
        WHERE k.place IS NOT NULL OR o.n < %s
    ) x GROUP BY 1, 2
)
SELECT k.place, {shown}, k.m, k.n, k.records, w.connection_id, w.witnesses
FROM k FULL JOIN w ON w.place = k.place
ORDER BY k.place NULLS LAST, w.extreme DESC NULLS LAST, w.connection_id
"""


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    """Groups by a time field, with a unit that begins in an IANA time zone."""

    field: Field
    granularity: str
    time_zone: str


@dataclass(frozen=True, slots=True)
class Totals:
    """``rows`` are (key, value, records); ``records`` counts the records that match the filters."""

    rows: list[tuple[Any, Any, int]]
    records: int
    witnesses: frozenset[RecordKey]


def is_time_zone(name: str) -> bool:
    """Return whether both Python and the database know an IANA time zone."""
    return name == "UTC" or name in _time_zones()


@lru_cache(maxsize=1)
def _time_zones() -> frozenset[str]:
    names = {name for (name,) in fetch_all(SQL("SELECT name FROM pg_timezone_names"))}
    # "localtime" is the zone of some machine, which a client cannot know.
    return frozenset(names & available_timezones() - {"localtime"})


def aggregate_total(
    visible: VisibleRecords, metric: Metric, field: Field | None, where: Sequence[SQL]
) -> Totals:
    """Return one value over all rows. One query."""
    select = visible.select(_value(visible, field, "v") + ROW_ID, where)
    text = TOTAL.format(rows=select.text, measure=_METRIC_SQL[metric], extreme=_extreme(metric))
    rows = fetch_all(SQL(text, (*select.values, SMALL_GROUP, SMALL_GROUP)))
    value, records = rows[0][:2]
    keys_by_connection = [(connection_id, keys) for _, _, connection_id, keys in rows if keys]
    witnesses = frozenset(_witnesses(keys_by_connection, records))
    return Totals([(None, value, records)], records, witnesses)


def aggregate_groups(
    visible: VisibleRecords,
    metric: Metric,
    field: Field | None,
    by: Field | TimeBuckets,
    where: Sequence[SQL],
    *,
    limit: int,
) -> Totals:
    """Return the first ``limit`` groups. One query.

    Time buckets are ordered by time, other groups by size, largest first. Null comes last.
    """
    if isinstance(by, TimeBuckets):
        value, key, shown = _value(visible, by.field, "g"), _bucket_start(by), _bucket_name(by)
        order, null = "g.key NULLS LAST", "timestamp '-infinity'"
    else:
        value, key = _value(visible, by, "g"), SQL('i.g::text COLLATE "C"')
        shown, order, null = SQL("k.key"), "g.key IS NULL, g.n DESC, g.key", "''"
    select = visible.select(_value(visible, field, "v") + SQL(", ") + value + ROW_ID, where)
    text = GROUPED.format(
        key=key.text,
        rows=select.text,
        order=order,
        measure=_METRIC_SQL[metric],
        extreme=_extreme(metric),
        null=null,
        shown=shown.text,
    )
    bounds = (limit, SMALL_GROUP, SMALL_GROUP)
    return _totals(fetch_all(SQL(text, (*key.values, *select.values, *bounds, *shown.values))))


def _totals(rows: Sequence[tuple[Any, ...]]) -> Totals:
    """Convert rows of ``GROUPED``: one or more per place, then those of groups not shown."""
    groups, witnesses = [], set[RecordKey]()
    for place, rows_of_place in groupby(rows, key=itemgetter(0)):
        group_rows = list(rows_of_place)
        _, key, value, n = group_rows[0][:4]
        if place is not None:
            groups.append((key, value, n))
        witnesses.update(_witnesses([(row[5], row[6]) for row in group_rows], n or 0))
    records = int(rows[0][4]) if rows else 0
    return Totals(groups, records, frozenset(witnesses))


def _witnesses(
    keys_by_connection: Sequence[tuple[str, list[str]]], records: int
) -> Iterator[RecordKey]:
    """Yield every record of a small group; of a larger one those of the first connection."""
    is_small = records < SMALL_GROUP
    for connection_id, keys in keys_by_connection if is_small else keys_by_connection[:1]:
        for key in keys:
            yield RecordKey(connection_id, key)


def _extreme(metric: Metric) -> str:
    # Whether a row of ``u`` has the minimum or maximum.
    return "coalesce(u.v = k.m, false)" if metric in ("min", "max") else "false"


def _bucket_start(by: TimeBuckets) -> SQL:
    zone = "UTC" if by.field.kind == "date" else by.time_zone
    return SQL("date_trunc(%s, i.g AT TIME ZONE %s)", (by.granularity, zone))


def _bucket_name(by: TimeBuckets) -> SQL:
    """Return the name of a bucket in the format of contract 3.7, computed once per bucket."""
    return SQL("to_char(k.key, %s)", (_BUCKET_FORMATS.get(by.granularity, "YYYY-MM-DD"),))


def _value(visible: VisibleRecords, field: Field | None, name: str) -> SQL:
    """Return the typed value of a field of ``r``, or its text if it has no typed column."""
    if field is None:
        return SQL(f"NULL::text AS {name}")
    checked = visible.filter_field(field.name, param="field")
    column = typed_column(visible, checked)
    if column is None or checked.kind in ("string", "boolean"):
        return SQL(f"(r.data->>%s) AS {name}", (checked.name,))
    if checked.name == visible.stream.consent_time_field:
        # The consent time is the same value, and an index covers it, so no record is read.
        column = "r.consent_time"
    return SQL(f"{column} AS {name}")


SELECT_COUNTERS: Final = """
-- Counters of every stream of some connections. Parameters: connection ids. One query.
SELECT s.connection_id, s.stream, s.record_count, s.latest_emitted_at, s.latest_declared_at
FROM evidence_streamstate s WHERE s.connection_id = ANY(%s)
"""


def count_records(visible: VisibleRecords, where: Sequence[SQL] = ()) -> int:
    """Return the number of visible rows that match ``where``. One query."""
    branches = visible.select(SQL("count(*) AS n"), where)
    statement = SQL("SELECT coalesce(sum(u.n), 0)::bigint FROM (") + branches + SQL(") u")
    return int(fetch_all(statement)[0][0])


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
    rows = fetch_all(SQL(SELECT_COUNTERS, (connection_ids,)))
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
