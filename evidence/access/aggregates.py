"""Numbers over visible rows, grouped or not, in one statement however many connections.

A number over few records tells what those records say, so each statement also returns witnesses:
the records that the ledger names. All records behind fewer than ``SMALL_GROUP`` are witnesses, one
record of each larger group that is shown, and the record of a minimum or maximum.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple
from zoneinfo import available_timezones

from evidence.access.gate import Gate
from evidence.access.granted_streams import typed_column
from evidence.access.owner_scope import owner_scope
from evidence.access.records import VisibleRecords
from evidence.access.scope import Everything
from evidence.access.sql import Fragment, fetched
from evidence.declarations.declaration import Field

Metric = Literal["count", "count_distinct", "sum", "min", "max"]
METRICS: Final = ("count", "count_distinct", "sum", "min", "max")
GRANULARITIES: Final = ("minute", "hour", "day", "week", "month", "quarter", "year")

_MEASURES: Final = {
    "count": "count(*)",
    "count_distinct": "count(DISTINCT u.v)",
    "sum": "sum(u.v)",
    "min": "min(u.v)",
    "max": "max(u.v)",
}
ROW_ID: Final = Fragment(", r.connection_id, r.record_key")
_KEYS: Final = {"minute": 'YYYY-MM-DD"T"HH24:MI', "hour": 'YYYY-MM-DD"T"HH24:00'}


SMALL_GROUP: Final = 5
"""A number over fewer records than these discloses each of them."""

TOTAL: Final = """
-- One value over all matching rows, and its witnesses per connection. The rows are read a second time
-- only where there are witnesses to find: behind few rows, or behind a minimum or maximum.
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
-- group without a place; its records are witnesses where they are few.
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


class Witness(NamedTuple):
    """A record that a number discloses."""

    connection_id: str
    record_key: str


@dataclass(frozen=True, slots=True)
class Buckets:
    """Group by a time field: the unit, and the IANA zone in which it begins."""

    field: Field
    granularity: str
    time_zone: str


@dataclass(frozen=True, slots=True)
class Totals:
    """``rows`` are (key, value, records); ``records`` counts what the filters left."""

    rows: list[tuple[Any, Any, int]]
    records: int
    witnesses: frozenset[Witness]


def is_time_zone(name: str) -> bool:
    """Whether periods can begin in a zone of that IANA name: the database must know it, too."""
    return name == "UTC" or name in _time_zones()


@lru_cache(maxsize=1)
def _time_zones() -> frozenset[str]:
    known = {name for (name,) in fetched(Fragment("SELECT name FROM pg_timezone_names"))}
    # Some machines call their own zone by that name, which says nothing to whoever reads the answer.
    return frozenset(known & available_timezones() - {"localtime"})


def total(
    visible: VisibleRecords, metric: Metric, field: Field | None, where: Sequence[Fragment]
) -> Totals:
    """Return one value over all rows. One query."""
    rows = visible.matching(_value(visible, field, "v") + ROW_ID, where)
    text = TOTAL.format(rows=rows.text, measure=_MEASURES[metric], extreme=_extreme(metric))
    found = fetched(Fragment(text, (*rows.values, SMALL_GROUP, SMALL_GROUP)))
    value, records = found[0][:2]
    per_connection = [(one, keys) for _, _, one, keys in found if keys]
    return Totals([(None, value, records)], records, frozenset(_chosen(per_connection, records)))


def grouped(
    visible: VisibleRecords,
    metric: Metric,
    field: Field | None,
    by: Field | Buckets,
    where: Sequence[Fragment],
    *,
    limit: int,
) -> Totals:
    """Return the first ``limit`` groups: by time for buckets, else the largest first. Null comes
    last. One query."""
    if isinstance(by, Buckets):
        value, key, shown = _value(visible, by.field, "g"), _bucket(by), _bucket_name(by)
        order, null = "g.key NULLS LAST", "timestamp '-infinity'"
    else:
        value, key = _value(visible, by, "g"), Fragment('i.g::text COLLATE "C"')
        shown, order, null = Fragment("k.key"), "g.key IS NULL, g.n DESC, g.key", "''"
    rows = visible.matching(_value(visible, field, "v") + Fragment(", ") + value + ROW_ID, where)
    text = GROUPED.format(
        key=key.text,
        rows=rows.text,
        order=order,
        measure=_MEASURES[metric],
        extreme=_extreme(metric),
        null=null,
        shown=shown.text,
    )
    bounds = (limit, SMALL_GROUP, SMALL_GROUP)
    found = fetched(Fragment(text, (*key.values, *rows.values, *bounds, *shown.values)))
    return _groups(found)


def _groups(found: Sequence[tuple[Any, ...]]) -> Totals:
    """Rows of ``GROUPED``: one or more for each place, then those of the groups not shown."""
    groups, witnesses = [], set[Witness]()
    for place, each in groupby(found, key=itemgetter(0)):
        rows = list(each)
        _, key, value, n = rows[0][:4]
        if place is not None:
            groups.append((key, value, n))
        witnesses.update(_chosen([(row[5], row[6]) for row in rows], n or 0))
    records = int(found[0][4]) if found else 0
    return Totals(groups, records, frozenset(witnesses))


def _chosen(per_connection: Sequence[tuple[str, list[str]]], records: int) -> Iterator[Witness]:
    """Every record of a small group; of a larger one the first witness."""
    for connection_id, keys in per_connection if records < SMALL_GROUP else per_connection[:1]:
        for key in keys:
            yield Witness(connection_id, key)


def _extreme(metric: Metric) -> str:
    """Whether a row of ``u`` has the minimum or maximum."""
    return "coalesce(u.v = k.m, false)" if metric in ("min", "max") else "false"


def _bucket(by: Buckets) -> Fragment:
    """The start of the bucket in its zone."""
    zone = "UTC" if by.field.kind == "date" else by.time_zone
    return Fragment("date_trunc(%s, i.g AT TIME ZONE %s)", (by.granularity, zone))


def _bucket_name(by: Buckets) -> Fragment:
    """The same as contract 3.7 words it; asked for once a bucket, not once a row."""
    return Fragment("to_char(k.key, %s)", (_KEYS.get(by.granularity, "YYYY-MM-DD"),))


def _value(visible: VisibleRecords, field: Field | None, name: str) -> Fragment:
    """The typed value of a field of ``r``, or its text where it has no slot."""
    if field is None:
        return Fragment(f"NULL::text AS {name}")
    checked = visible.filter_field(field.name, param="field")
    column = typed_column(visible, checked)
    if column is None or checked.kind in ("string", "boolean"):
        return Fragment(f"(r.data->>%s) AS {name}", (checked.name,))
    if checked.name == visible.stream.consent_time_field:
        # The same moment, and it stands in an index, so that no record needs to be read.
        column = "r.consent_time"
    return Fragment(f"{column} AS {name}")


def count(visible: VisibleRecords, where: Sequence[Fragment] = ()) -> int:
    """How many visible rows ``where`` leaves; one query."""
    branches = visible.matching(Fragment("count(*) AS n"), where)
    total = Fragment("SELECT coalesce(sum(u.n), 0)::bigint FROM (") + branches + Fragment(") u")
    return int(fetched(total)[0][0])


def time_bounds(
    visible: VisibleRecords, where: Sequence[Fragment] = ()
) -> tuple[datetime | None, datetime | None]:
    """The earliest and the latest consent time of what ``where`` leaves; one query."""
    columns = Fragment("min(r.consent_time) AS low, max(r.consent_time) AS high")
    branches = visible.matching(columns, where)
    row = fetched(Fragment("SELECT min(u.low), max(u.high) FROM (") + branches + Fragment(") u"))[0]
    return row[0], row[1]


def records_at(
    visible: VisibleRecords, times: Iterable[datetime | None], where: Sequence[Fragment] = ()
) -> list[tuple[str, str]]:
    """Return connection and key of one record for each of these consent times; one query."""
    wanted = [each for each in times if each is not None]
    at = Fragment(" AND r.consent_time = ANY(%s)", (wanted,))
    columns = Fragment("r.connection_id, r.record_key, r.consent_time")
    statement = Fragment("SELECT DISTINCT ON (u.consent_time) u.connection_id, u.record_key FROM (")
    statement += visible.matching(columns, [*where, at])
    order = Fragment(") u ORDER BY u.consent_time, u.connection_id, u.record_key")
    return [(one, key) for one, key in fetched(statement + order)]


def names_of(
    visible: VisibleRecords, where: Sequence[Fragment] = (), *, limit: int
) -> list[tuple[str, str]]:
    """Return connection and key of up to ``limit`` visible rows; one query."""
    rows = visible.matching(Fragment("r.connection_id, r.record_key"), where)
    statement = Fragment("SELECT u.* FROM (") + rows + Fragment(") u LIMIT %s", (limit,))
    return [(one, key) for one, key in fetched(statement)]


def kept_counts(
    streams: Iterable[VisibleRecords],
) -> Mapping[tuple[str, str], tuple[int, datetime | None]]:
    """(connection_id, stream) -> records and latest emitted time, from the counters; one query.

    Only where a grant hides no row of the stream: a counter knows nothing of grants. A grant of all
    declared fields gets the time that counts those; a narrower one gets none, because a hidden
    change moves it.
    """
    wanted = {
        (facts.connection_id, visible.stream.name): visible
        for visible in streams
        if visible.is_whole
        for facts in visible.connections
    }
    if not wanted:
        return {}
    rows = fetched(
        Fragment(
            "SELECT s.connection_id, s.stream, s.record_count, s.latest_emitted_at,"
            " s.latest_declared_at FROM evidence_streamstate s WHERE s.connection_id = ANY(%s)",
            (sorted({connection_id for connection_id, _ in wanted}),),
        )
    )
    kept = {
        (connection_id, stream): (records, _shown_time(wanted[connection_id, stream], *latest))
        for connection_id, stream, records, *latest in rows
        if (connection_id, stream) in wanted
    }
    return {key: kept.get(key, (0, None)) for key in wanted}


def _shown_time(
    visible: VisibleRecords, latest: datetime | None, declared: datetime | None
) -> datetime | None:
    """Return the latest time that counts only fields which every grant concerned shows, if any."""
    if all(isinstance(sight.terms.fields, Everything) for sight in visible.sights):
        return latest
    return declared if all(map(visible.shows, visible.stream.fields)) else None


def known_keys(
    owner_id: str, *, stream: str, connection_ids: Iterable[str], keys: Sequence[str]
) -> frozenset[str]:
    """Those of ``keys`` that name a record in any of these connections; one query for each."""
    gate = Gate(owner_scope(owner_id))
    wanted = Fragment(" AND r.record_key = ANY(%s)", (list(keys),))
    found: set[str] = set()
    for connection_id in connection_ids:
        visible = gate.stream(stream, connection_id=connection_id)
        rows = fetched(visible.matching(Fragment("r.record_key"), [wanted]))
        found.update(row[0] for row in rows)
    return frozenset(found)
