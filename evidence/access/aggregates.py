"""Numbers over visible rows, grouped or not, in one statement however many connections."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal
from zoneinfo import available_timezones

from evidence.access.conditions import typed_column
from evidence.access.rows import VisibleRecords
from evidence.access.statements import Fragment, fetched
from evidence.declarations.types import Field

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
_KEYS: Final = {"minute": 'YYYY-MM-DD"T"HH24:MI', "hour": 'YYYY-MM-DD"T"HH24:00'}


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
    """One value over all rows."""
    inner = visible.matching(_value(visible, field, "v"), where)
    statement = Fragment(f"SELECT {_MEASURES[metric]}, count(*) FROM (") + inner + Fragment(") u")
    value, records = fetched(statement)[0]
    return Totals([(None, value, records)], records)


def grouped(
    visible: VisibleRecords,
    metric: Metric,
    field: Field | None,
    by: Field | Buckets,
    where: Sequence[Fragment],
    *,
    limit: int,
) -> Totals:
    """The first ``limit`` groups: by time for buckets, else the largest first. Null comes last."""
    if isinstance(by, Buckets):
        value, key = _value(visible, by.field, "g"), _bucket(by)
        shown, order = _bucket_name(by), "k.key NULLS LAST"
    else:
        value, key = _value(visible, by, "g"), Fragment('u.g::text COLLATE "C"')
        shown, order = Fragment("k.key"), "k.key IS NULL, k.n DESC, k.key"
    inner = visible.matching(_value(visible, field, "v") + Fragment(", ") + value, where)
    statement = Fragment("SELECT ") + shown + Fragment(", k.m, k.n, sum(k.n) OVER () FROM (SELECT ")
    statement += key + Fragment(f" AS key, {_MEASURES[metric]} AS m, count(*) AS n FROM (")
    statement += inner + Fragment(f") u GROUP BY 1) k ORDER BY {order} LIMIT %s", (limit,))
    rows = fetched(statement)
    return Totals([(key, m, n) for key, m, n, _ in rows], int(rows[0][3]) if rows else 0)


def _bucket(by: Buckets) -> Fragment:
    """The start of the bucket in its zone."""
    zone = "UTC" if by.field.kind == "date" else by.time_zone
    return Fragment("date_trunc(%s, u.g AT TIME ZONE %s)", (by.granularity, zone))


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
