"""Count and aggregate visible records, in one statement, also by period.

A number over few records reveals those records, so each statement also returns witnesses: the
records that the ledger names. Witnesses are all records behind fewer than ``SMALL_GROUP``, all
records with a value where fewer than ``SMALL_GROUP`` have one, one record of each larger group that
is shown, and the record of a minimum or maximum. Periods are counted from the index on time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, get_args
from zoneinfo import available_timezones

from evidence.access.records import (
    CONSENT_TIME_CONDITION,
    RecordKey,
    VisibleRecords,
    number_expression,
    typed_column,
)
from evidence.access.sql import NO_SORT, SQL, fetch_all, fetch_prepared, fill, join_sql
from evidence.declarations.declaration import Field
from evidence.parameters import Metric

_INDEXED: Final = {
    "day": "1 day", "week": "7 days", "month": "1 month", "quarter": "3 months", "year": "1 year"
}  # fmt: skip
"""The length of the periods that are long enough for an index lookup each."""
_FORMATS: Final = {"minute": 'YYYY-MM-DD"T"HH24:MI', "hour": 'YYYY-MM-DD"T"HH24:00'}

INDEXED_PERIODS: Final = """
-- Periods of UTC: the first record after each one begins the next, and a range of the index counts it.
-- The first row of a connection counts its records without a time.
b (connection_id, k0, first, last, n) AS (
    SELECT c.id, NULL::timestamp, NULL::timestamptz, '-infinity'::timestamptz,
        (SELECT count(*){untimed} AND r.consent_time IS NULL)
    FROM unnest({ids}::text[]) AS c(id)
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
-- Periods of another time zone, from one scan of the index.
b AS MATERIALIZED (
    SELECT i.connection_id, i.k0, min(i.at) AS first, max(i.at) AS last, count(*) AS n
    FROM ({rows}) i GROUP BY 1, 2
)"""
NAMED_RECORDS: Final = """,
-- The first record of each period, and all records of small periods.
u AS NOT MATERIALIZED (
    SELECT b.connection_id, b.k0, x.record_key FROM b CROSS JOIN LATERAL (
        (SELECT r.record_key FROM (
            SELECT r.record_key, {no_sort}{rows} AND r.consent_time BETWEEN b.first AND b.last
                AND {start} = b.k0
            ORDER BY r.consent_time LIMIT CASE WHEN b.n < {small} THEN {small} ELSE 1 END
        ) r)
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
    counted = _from_index if buckets.zone == "UTC" else _from_scan
    return counted(visible, buckets, where) + fill(
        NAMED_RECORDS, rows=rows, start=start, small=SQL(f"{small:d}"), no_sort=NO_SORT
    )


def _from_index(visible: VisibleRecords, buckets: TimeBuckets, where: Sequence[SQL]) -> SQL:
    [group] = visible.groups
    untimed, rows = (
        group.rows(SQL(id_)) + join_sql("", where) for id_ in ("c.id", "b.connection_id")
    )
    return fill(
        INDEXED_PERIODS,
        ids=group.connection_ids,
        untimed=untimed,
        rows=rows,
        start=buckets.start("r.consent_time"),
        step=SQL(_INDEXED[buckets.granularity]),
        no_sort=NO_SORT,
    )


def _from_scan(visible: VisibleRecords, buckets: TimeBuckets, where: Sequence[SQL]) -> SQL:
    start = buckets.start("r.consent_time")
    columns = SQL("r.connection_id, r.consent_time AS at, ") + start + SQL(" AS k0")
    rows = visible.select(columns, where)
    return fill(SCANNED_PERIODS, rows=rows)


COUNT_BY_NAME: Final = """
-- Records by the text of a field: the text, number, latest time. Records without a text do not count.
-- Part: rows with name and at. One query.
SELECT u.name, count(*), max(u.at) FROM ({rows}) u
WHERE u.name <> '' GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {limit}
"""


class NameCount(NamedTuple):
    name: str
    records: int
    last: datetime | None


def count_by_name(visible: VisibleRecords, field: str, *, limit: int) -> list[NameCount]:
    """Return the texts of a field with the most records. One query."""
    name = visible.shown_field(field, param="field").name
    rows = visible.select(SQL("r.data->>%s AS name, r.consent_time AS at", (name,)), [])
    return [NameCount(*row) for row in fetch_all(fill(COUNT_BY_NAME, rows=rows, limit=limit))]


def with_name(visible: VisibleRecords, field: str, name: str) -> SQL:
    """Return a condition that a record is one of those that `count_by_name` counts under a text."""
    return SQL(" AND r.data->>%s = %s", (visible.shown_field(field, param="field").name, name))


METRICS: Final = get_args(Metric)

_METRIC_SQL: Final = {
    "count": "count(*)",
    "count_distinct": "count(DISTINCT u.{v})",
    "sum": "sum(u.{v})",
    "avg": "avg(u.{v})",
    "min": "min(u.{v})",
    "max": "max(u.{v})",
}
_CURRENCY_SQL: Final = "CASE WHEN min({y}) <> max({y}) THEN '*' ELSE min({y}) END"
ROW_ID: Final = SQL("r.connection_id, r.record_key")

SMALL_GROUP: Final = 5
"""A number over fewer records than this discloses each of them."""

TOTAL: Final = """
-- Values over all matching rows, and their witnesses per connection: the records behind few rows or few
-- values, and one record for each minimum or maximum. Reads the rows again only to find witnesses.
-- Part: rows with v and y of each measure, connection and key. One query.
WITH u AS NOT MATERIALIZED ({rows}),
k AS MATERIALIZED (SELECT {measures}, count(*) AS n FROM u)
SELECT 1, k.n, k.n, {values}, w.*
FROM k LEFT JOIN LATERAL (
    SELECT u.connection_id, array_agg(u.record_key) FILTER (WHERE k.n < {small} OR {few}),
        NULL{extremes}
    FROM u WHERE k.n < {small} OR {few} OR {extreme} GROUP BY u.connection_id
) w ON true
ORDER BY w.connection_id
"""
GROUPED_RECORDS: Final = """
u AS NOT MATERIALIZED (
    SELECT {columns}, {keys}, i.connection_id, i.record_key FROM ({rows}) i
)"""
COUNTED_PERIODS: Final = "(SELECT * FROM b WHERE n > 0)"
GROUPED: Final = """
-- Groups in order up to the end of the page, and the witnesses of those on it per connection. The rows
-- after the page are one more group, without a place; its records are witnesses if there are few.
-- Part: u and, of periods, b. One query.
WITH RECURSIVE {rows},
k AS MATERIALIZED (
    SELECT g.*, row_number() OVER (ORDER BY {order}) AS place FROM (
        SELECT {key_names}, {measures}, {count} AS n, sum({count}) OVER () AS records
        FROM {counted} AS u GROUP BY {key_names}
    ) g ORDER BY place LIMIT {end}
),
o AS MATERIALIZED (SELECT max(k.records) - sum(k.n) AS n FROM k),
w AS (
    SELECT k.place, u.connection_id,
        array_agg(u.record_key) FILTER (WHERE coalesce(k.n, o.n) < {small} OR {few}) AS named,
        min(u.record_key) AS first{extremes}
    FROM u CROSS JOIN o LEFT JOIN k ON {joined}
    WHERE k.place > {start} OR (k.place IS NULL AND o.n < {small})
    GROUP BY 1, 2
)
SELECT k.place, k.n, k.records, {values}, {shown}, w.connection_id, w.named, w.first{extreme_names}
FROM k FULL JOIN w ON w.place = k.place
ORDER BY k.place NULLS LAST, w.connection_id
"""


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric, over a field unless it counts records.

    With ``currency``, the field with the currency of its values is summed up beside the value.
    """

    metric: Metric
    field: Field | None = None
    currency: Field | None = None


SEVERAL: Final = "*"
"""The currency of values in several currencies."""


Key = Field | TimeBuckets


@dataclass(frozen=True, slots=True)
class GroupPage:
    """The groups from ``start`` to ``end``, by ``measure`` (-1: by size), or by key if it is None."""

    start: int
    end: int
    measure: int | None
    descending: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Values of the keys and measures, the number of records, and the records that these disclose.

    ``currencies`` has one for each measure: None without a value, ``SEVERAL``, or "" where unknown.
    """

    keys: tuple[Any, ...]
    values: tuple[Any, ...]
    currencies: tuple[str | None, ...]
    records: int
    witnesses: frozenset[RecordKey]


@dataclass(frozen=True, slots=True)
class Totals:
    """``records`` match the filters. ``before`` of them are in groups before the page.

    ``rest`` are the witnesses of the groups after the page.
    """

    groups: list[Group]
    records: int
    before: int = 0
    rest: frozenset[RecordKey] = frozenset()


def aggregate_total(
    visible: VisibleRecords, measures: Sequence[Measure], where: Sequence[SQL]
) -> Totals:
    """Return one group without keys over all rows. One query."""
    select = visible.select(join_sql(", ", [*_values(visible, measures), ROW_ID]), where)
    extreme = " OR ".join(f"u.v{at} = k.m{at}" for at in _extremes(measures)) or "false"
    rows = fetch_all(fill(TOTAL, rows=select, extreme=SQL(extreme), **_measure_sql(measures)))
    group = _group(rows, keys=0, measures=len(measures))
    return Totals([group], group.records)


def aggregate_groups(
    visible: VisibleRecords,
    measures: Sequence[Measure],
    keys: Sequence[Key],
    where: Sequence[SQL],
    *,
    page: GroupPage,
) -> Totals:
    """Return one page of groups. One query."""
    periods = _periods(visible, measures, keys, where)
    rows = periods or _grouped_records(visible, measures, keys, where)
    shown = join_sql(", ", [_key_name(key, f"k.k{at}") for at, key in enumerate(keys)])
    count = "sum(u.n)::bigint" if periods else "count(*)"
    statement = fill(
        GROUPED,
        rows=rows,
        key_names=SQL(", ".join(f"u.k{at}" for at in range(len(keys)))),
        count=SQL(count),
        counted=SQL(COUNTED_PERIODS if periods else "u"),
        order=SQL(_order(page, len(keys))),
        joined=SQL(" AND ".join(_same_key(key, at) for at, key in enumerate(keys))),
        shown=shown,
        extreme_names=SQL("".join(f", w.e{at}" for at in _extremes(measures))),
        start=page.start,
        end=page.end,
        **_measure_sql(measures, count),
    )
    found = fetch_prepared(statement) if periods else fetch_all(statement)
    return _page_totals(found, page, len(keys), len(measures))


def _periods(
    visible: VisibleRecords, measures: Sequence[Measure], keys: Sequence[Key], where: Sequence[SQL]
) -> SQL | None:
    """Return the CTEs of periods that the index on time counts, or None."""
    [key, *others] = keys
    if others or not isinstance(key, TimeBuckets) or any(each.field for each in measures):
        return None
    field = visible.filter_field(key.field.name, param="field")
    if field.name != visible.stream.consent_time_field:
        return None
    return count_periods(visible, key, where, small=SMALL_GROUP)


def _grouped_records(
    visible: VisibleRecords, measures: Sequence[Measure], keys: Sequence[Key], where: Sequence[SQL]
) -> SQL:
    fields = [key.field if isinstance(key, TimeBuckets) else key for key in keys]
    grouped = [_value(visible, field, f"g{at}") for at, field in enumerate(fields)]
    columns = [*_values(visible, measures), *grouped, ROW_ID]
    return fill(
        GROUPED_RECORDS,
        columns=SQL(", ".join(f"i.v{at}, i.y{at}" for at in range(len(measures)))),
        keys=join_sql(", ", [_key_start(key, at) for at, key in enumerate(keys)]),
        rows=visible.select(join_sql(", ", columns), where),
    )


def _page_totals(
    rows: Sequence[tuple[Any, ...]], page: GroupPage, keys: int, measures: int
) -> Totals:
    """Convert rows of ``GROUPED``: one or more per place, then those after the page."""
    groups, before, rest = [], 0, frozenset[RecordKey]()
    for place, rows_of_place in groupby(rows, key=itemgetter(0)):
        group = _group(list(rows_of_place), keys=keys, measures=measures)
        if place is None:
            rest = group.witnesses
        elif place > page.start:
            groups.append(group)
        else:
            before += group.records
    return Totals(groups, int(rows[0][2]) if rows else 0, before, rest)


def _group(rows: Sequence[tuple[Any, ...]], *, keys: int, measures: int) -> Group:
    """Return the group of one place, whose rows differ only in their witnesses."""
    _, n, _, *columns = rows[0]
    names, start = columns[2 * measures : 2 * measures + keys], 3 + 2 * measures + keys
    witnesses = [row[start:] for row in rows if row[start] is not None]
    return Group(
        tuple(names),
        tuple(columns[: 2 * measures : 2]),
        tuple(columns[1 : 2 * measures : 2]),
        int(n or 0),
        frozenset(_named(witnesses, n or 0)),
    )


def _named(rows: Sequence[tuple[Any, ...]], records: int) -> Iterator[RecordKey]:
    """Yield the records that each connection names: all of a few, and else one for each number.

    A row is (connection, the records behind few, any record, one record for each extreme).
    """
    for connection_id, named, *_ in rows:
        yield from (RecordKey(connection_id, key) for key in named or ())
    if records < SMALL_GROUP:
        return
    extremes = [column for column in zip(*(row[3:] for row in rows), strict=True) if any(column)]
    for column in extremes or [tuple(row[2] for row in rows)]:
        first = next((at for at, key in enumerate(column) if key is not None), None)
        if first is not None:
            yield RecordKey(rows[first][0], column[first])


def _measure_sql(measures: Sequence[Measure], count: str = "count(*)") -> dict[str, SQL]:
    """Return the parts of both statements that depend on the measures."""
    metrics = _METRIC_SQL | {"count": count}
    numbers = range(len(measures))
    over = [at for at in numbers if measures[at].field is not None]
    computed = [
        f"{metrics[measure.metric].format(v=f'v{at}')} AS m{at}, "
        f"{f'count(u.v{at})' if measure.field else '0'} AS c{at},"
        f" {_CURRENCY_SQL.format(y=f'u.y{at}') if measure.currency else 'NULL::text'} AS y{at}"
        for at, measure in enumerate(measures)
    ]
    few = [f"(k.c{at} < {SMALL_GROUP} AND u.v{at} IS NOT NULL)" for at in over]
    parts = {
        "measures": ", ".join(computed),
        "values": ", ".join(f"k.m{at}, k.y{at}" for at in numbers),
        "small": str(SMALL_GROUP),
        "few": f"coalesce({' OR '.join(few)}, false)" if few else "false",
        "extremes": "".join(
            f", min(u.record_key) FILTER (WHERE u.v{at} = k.m{at}) AS e{at}"
            for at in _extremes(measures)
        ),
    }
    return {name: SQL(text) for name, text in parts.items()}


def _extremes(measures: Sequence[Measure]) -> list[int]:
    """Return the positions of the measures that disclose the record of their value."""
    return [at for at, measure in enumerate(measures) if measure.metric in ("min", "max")]


def _order(page: GroupPage, keys: int) -> str:
    by_key = [f"g.k{at} NULLS LAST" for at in range(keys)]
    direction = "DESC" if page.descending else "ASC"
    if page.measure is None:
        return ", ".join(f"g.k{at} {direction} NULLS LAST" for at in range(keys))
    if page.measure >= 0:
        return ", ".join([f"g.m{page.measure} {direction} NULLS LAST", *by_key])
    # Records without the key come last, whatever their number.
    missing = [f"g.k{at} IS NULL" for at in range(keys)]
    return ", ".join([*missing, f"g.n {direction}", *by_key])


def _key_start(key: Key, at: int) -> SQL:
    """Return the value that records of one group share: a text, or the start of a period."""
    if not isinstance(key, TimeBuckets):
        return SQL(f'i.g{at}::text COLLATE "C" AS k{at}')
    return key.start(f"i.g{at}") + SQL(f" AS k{at}")


def _key_name(key: Key, column: str) -> SQL:
    return key.shown(column) if isinstance(key, TimeBuckets) else SQL(column)


def _same_key(key: Key, at: int) -> str:
    # IS NOT DISTINCT FROM would prevent a hash join.
    null = "timestamp '-infinity'" if isinstance(key, TimeBuckets) else "''"
    same = f"coalesce(u.k{at}, {null}) = coalesce(k.k{at}, {null})"
    return f"(u.k{at} IS NULL) = (k.k{at} IS NULL) AND {same}"


def _values(visible: VisibleRecords, measures: Sequence[Measure]) -> list[SQL]:
    return [
        column
        for at, measure in enumerate(measures)
        for column in (_value(visible, measure.field, f"v{at}"), _currency(visible, measure, at))
    ]


def _currency(visible: VisibleRecords, measure: Measure, at: int) -> SQL:
    """Return the currency of a value of ``r``, empty if unknown; null without a value."""
    if measure.currency is None or measure.field is None:
        return SQL(f"NULL::text AS y{at}")
    name = visible.filter_field(measure.currency.name, param="field").name
    value = number_expression(visible, measure.field)
    text = f"CASE WHEN {value.text} IS NOT NULL THEN coalesce(r.data->>%s, '') END"
    return SQL(f'{text} COLLATE "C" AS y{at}', (*value.values, name))


def _value(visible: VisibleRecords, field: Field | None, name: str) -> SQL:
    """Return the typed value of a field of ``r``, or its text if it has no typed column."""
    if field is None:
        return SQL(f"NULL::text AS {name}")
    checked = visible.filter_field(field.name, param="field")
    if checked.kind == "number":
        return number_expression(visible, checked) + SQL(f" AS {name}")
    column = typed_column(visible, checked)
    if column is None or checked.kind in ("string", "boolean"):
        return SQL(f"(r.data->>%s) AS {name}", (checked.name,))
    if checked.name == visible.stream.consent_time_field:
        # The consent time is the same value, and an index covers it, so no record is read.
        column = "r.consent_time"
    return SQL(f"{column} AS {name}")
