"""Periods of a time field, and cells of a grid over positions, with their counts of visible records.

Periods are counted from the index on time, with the records that disclose them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final
from zoneinfo import available_timezones

from evidence.access.granted_streams import CONSENT_TIME_CONDITION, number_expression
from evidence.access.records import VisibleRecords
from evidence.access.sql import SORT_BLOCKER, SQL, fetch_all, join_sql
from evidence.declarations.declaration import Field

_INDEXED: Final = {
    "day": "1 day", "week": "7 days", "month": "1 month", "quarter": "3 months", "year": "1 year"
}  # fmt: skip
"""The length of the periods that are long enough for an index lookup each."""
_FORMATS: Final = {"minute": 'YYYY-MM-DD"T"HH24:MI', "hour": 'YYYY-MM-DD"T"HH24:00'}

INDEXED_PERIODS: Final = """
-- Periods of UTC: the first record after each one begins the next, and a range of the index counts it.
-- The first row of a connection counts its records without a time.
-- Parameters: those of the rows, connection ids, those of the rows, of the start, and of the rows.
b (connection_id, k0, first, last, n) AS (
    SELECT c.id, NULL::timestamp, NULL::timestamptz, '-infinity'::timestamptz,
        (SELECT count(*){untimed} AND r.consent_time IS NULL)
    FROM unnest(%s::text[]) AS c(id)
    UNION ALL
    SELECT b.connection_id, f.k0, f.first, f.last,
        (SELECT count(*){rows} AND r.consent_time BETWEEN f.first AND f.last)
    FROM b CROSS JOIN LATERAL (
        SELECT s.*, (s.k0 + interval '{step}') AT TIME ZONE 'UTC' - interval '1 microsecond' AS last
        FROM (
            SELECT {start} AS k0, r.consent_time AS first, {no_sort}{rows}
                AND r.consent_time > b.last ORDER BY r.consent_time LIMIT 1
        ) s
    ) f
)"""
SCANNED_PERIODS: Final = """
-- Periods of another time zone, from one scan of the index. Parameters: those of the start and the rows.
b AS MATERIALIZED (
    SELECT i.connection_id, i.k0, min(i.at) AS first, max(i.at) AS last, count(*) AS n
    FROM ({rows}) i GROUP BY 1, 2
)"""
NAMED_RECORDS: Final = """,
-- The first record of each period, and all records of small periods.
-- Parameters: those of the rows, of the start, and of the rows.
u AS NOT MATERIALIZED (
    SELECT b.connection_id, b.k0, x.record_key FROM b CROSS JOIN LATERAL (
        (SELECT r.record_key{rows} AND r.consent_time BETWEEN b.first AND b.last AND {start} = b.k0
            ORDER BY r.consent_time LIMIT CASE WHEN b.n < {small} THEN {small} ELSE 1 END)
        UNION ALL
        (SELECT r.record_key{rows} AND r.consent_time IS NULL AND b.k0 IS NULL LIMIT {small})
    ) x
)"""


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    """Groups by a time field, with a unit that begins in an IANA time zone."""

    field: Field
    granularity: str
    time_zone: str

    @property
    def zone(self) -> str:
        return "UTC" if self.field.kind == "date" else self.time_zone

    def start(self, column: str) -> SQL:
        """Return the local start of the period of a time."""
        return SQL(f"date_trunc(%s, {column} AT TIME ZONE %s)", (self.granularity, self.zone))

    def shown(self, start: str) -> SQL:
        """Return the start in the format of contract 3.7."""
        return SQL(f"to_char({start}, %s)", (_FORMATS.get(self.granularity, "YYYY-MM-DD"),))


def is_time_zone(name: str) -> bool:
    """Return whether both Python and the database know an IANA time zone."""
    return name == "UTC" or name in _time_zones()


@lru_cache(maxsize=1)
def _time_zones() -> frozenset[str]:
    names = {name for (name,) in fetch_all(SQL("SELECT name FROM pg_timezone_names"))}
    # "localtime" is the zone of some machine, which a client cannot know.
    return frozenset(names & available_timezones() - {"localtime"})


def count_periods(
    visible: VisibleRecords, buckets: TimeBuckets, where: Sequence[SQL], *, small: int
) -> SQL | None:
    """Return two CTEs: ``b`` counts the periods, ``u`` names the records that disclose them.

    Fewer than ``small`` records are all named. Returns None where the index on time does not help: for
    short periods, conditions on other fields, and grants that list records or differ.
    """
    is_timed = all(each.text.startswith(CONSENT_TIME_CONDITION) for each in where)
    is_indexed = is_timed and buckets.granularity in _INDEXED
    if not is_indexed or len(visible.groups) != 1 or visible.groups[0].record_keys is not None:
        return None
    rows = visible.groups[0].rows(SQL("b.connection_id")) + join_sql("", where)
    start = buckets.start("r.consent_time")
    named = NAMED_RECORDS.format(rows=rows.text, start=start.text, small=small)
    counted = _from_index if buckets.zone == "UTC" else _from_scan
    values = (*rows.values, *start.values, *rows.values)
    return counted(visible, buckets, where) + SQL(named, values)


def _from_index(visible: VisibleRecords, buckets: TimeBuckets, where: Sequence[SQL]) -> SQL:
    [group] = visible.groups
    untimed, rows = (
        group.rows(SQL(id_)) + join_sql("", where) for id_ in ("c.id", "b.connection_id")
    )
    start = buckets.start("r.consent_time")
    text = INDEXED_PERIODS.format(
        untimed=untimed.text,
        rows=rows.text,
        start=start.text,
        step=_INDEXED[buckets.granularity],
        no_sort=SORT_BLOCKER,
    )
    ids = group.connection_ids
    values = (*untimed.values, ids, *rows.values, *start.values, *rows.values)
    return SQL(text, values)


def _from_scan(visible: VisibleRecords, buckets: TimeBuckets, where: Sequence[SQL]) -> SQL:
    start = buckets.start("r.consent_time")
    columns = SQL("r.connection_id, r.consent_time AS at, ") + start + SQL(" AS k0")
    rows = visible.select(columns, where)
    return SQL(SCANNED_PERIODS.format(rows=rows.text), rows.values)


CELLS_PER_SIDE: Final = 36
MIN_DEGREES: Final = 0.01
"""The smallest side of the grid: about a kilometer."""

COUNT_BY_CELL: Final = """
-- Records by cell of a grid over all positions: mean position, number, latest time, most frequent name.
-- Parameters: those of the rows, smallest side, cells per side, maximum. One query.
WITH u AS MATERIALIZED ({rows}),
b AS MATERIALIZED (
    SELECT greatest(max(u.latitude) - min(u.latitude), max(u.longitude) - min(u.longitude), %s) / %s
        AS size
    FROM u
)
SELECT avg(u.latitude)::float8, avg(u.longitude)::float8, count(*), max(u.at),
    mode() WITHIN GROUP (ORDER BY u.name), min(b.size)::float8
FROM u CROSS JOIN b
GROUP BY round(u.latitude / b.size), round(u.longitude / b.size)
ORDER BY 3 DESC, 1, 2 LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """The records near one position. `size` is the side of the cell in degrees.

    `reach` is the distance in degrees of several cells taken as one place.
    """

    latitude: float
    longitude: float
    records: int
    last: datetime | None
    name: str | None
    size: float
    reach: float = 0.0


def count_by_cell(
    visible: VisibleRecords, latitude: str, longitude: str, *, name: str | None, limit: int
) -> list[Cell]:
    """Return the cells with the most records. Impossible positions do not count. One query."""
    columns = _position(visible, latitude) + SQL(" AS latitude, ")
    columns += _position(visible, longitude) + SQL(" AS longitude, r.consent_time AS at, ")
    shown = None if name is None else visible.shown_field(name, param="field").name
    columns += SQL("r.data->>%s AS name", (shown or "",))
    where = near(visible, latitude, longitude, position=(0.0, 0.0), reach=(90.0, 180.0))
    rows = visible.select(columns, [where])
    values = (*rows.values, MIN_DEGREES, CELLS_PER_SIDE, limit)
    return [Cell(*row) for row in fetch_all(SQL(COUNT_BY_CELL.format(rows=rows.text), values))]


def near(
    visible: VisibleRecords,
    latitude: str,
    longitude: str,
    *,
    position: tuple[float, float],
    reach: tuple[float, float],
) -> SQL:
    """Return a condition that a record is within `reach` degrees of a position."""
    condition = SQL("")
    for name, center, distance in zip((latitude, longitude), position, reach, strict=True):
        condition += SQL(" AND ") + _position(visible, name)
        condition += SQL(" BETWEEN %s AND %s", (center - distance, center + distance))
    return condition


def _position(visible: VisibleRecords, name: str) -> SQL:
    return number_expression(visible, visible.filter_field(name, param="field"))
