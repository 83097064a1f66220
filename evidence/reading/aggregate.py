"""Compute counts, sums and histograms over visible records (contract 3.7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from evidence.access.aggregates import (
    Metric,
    TimeBuckets,
    aggregate_groups,
    aggregate_total,
    is_time_zone,
)
from evidence.access.records import RecordKey, VisibleRecords
from evidence.access.sql import SQL
from evidence.declarations.declaration import Field
from evidence.errors import InvalidRequest

MAX_EXACT_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateRequest:
    metric: Metric
    field: str | None
    group_by: str | None
    group_by_time: str | None
    granularity: str | None
    time_zone: str
    limit: int


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Either one ``value`` or ``groups``.

    ``other_count`` is the number of records in omitted groups; ``witnesses`` are the records that the
    numbers disclose.
    """

    records: int
    value: Any
    groups: list[tuple[Any, Any, int]] | None
    other_count: int
    witnesses: frozenset[RecordKey]


def aggregate(
    visible: VisibleRecords, request: AggregateRequest, where: Sequence[SQL]
) -> Aggregation:
    """Aggregate over every connection of the stream, in one query."""
    field = _metric_field(visible, request)
    by = _grouping(visible, request)
    if by is None:
        totals = aggregate_total(visible, request.metric, field, where)
        value = _json_value(totals.rows[0][1], field, request.metric)
        return Aggregation(totals.records, value, None, 0, totals.witnesses)
    totals = aggregate_groups(visible, request.metric, field, by, where, limit=request.limit)
    return Aggregation(
        totals.records,
        None,
        [
            (_group_key(key, by), _json_value(value, field, request.metric), n)
            for key, value, n in totals.rows
        ],
        totals.records - sum(n for _, _, n in totals.rows),
        totals.witnesses,
    )


def _metric_field(visible: VisibleRecords, request: AggregateRequest) -> Field | None:
    if request.metric == "count":
        if request.field is not None:
            raise InvalidRequest(message="count takes no field.", param="field")
        return None
    if request.field is None:
        raise InvalidRequest(message=f"{request.metric} needs a field.", param="field")
    return _aggregatable_field(visible, request.field, request.metric, param="field")


def _grouping(visible: VisibleRecords, request: AggregateRequest) -> Field | TimeBuckets | None:
    if request.group_by is not None and request.group_by_time is not None:
        raise InvalidRequest(
            message="Give group_by or group_by_time, not both.", param="group_by_time"
        )
    if request.group_by is not None:
        _refuse_granularity(request)
        return _aggregatable_field(visible, request.group_by, "group_by", param="group_by")
    if request.group_by_time is None:
        _refuse_granularity(request)
        return None
    if request.granularity is None:
        raise InvalidRequest(message="group_by_time needs a granularity.", param="granularity")
    if not is_time_zone(request.time_zone):
        raise InvalidRequest(
            message="time_zone takes an IANA name, such as Europe/Berlin.", param="time_zone"
        )
    field = _aggregatable_field(
        visible, request.group_by_time, "group_by_time", param="group_by_time"
    )
    return TimeBuckets(field, request.granularity, request.time_zone)


def _refuse_granularity(request: AggregateRequest) -> None:
    if request.granularity is not None:
        raise InvalidRequest(message="granularity needs group_by_time.", param="granularity")


def _aggregatable_field(visible: VisibleRecords, name: str, use: str, *, param: str) -> Field:
    field = visible.filter_field(name, param=param)
    if use not in field.aggregations:
        allowed = [
            other.name for other in visible.stream.fields.values() if use in other.aggregations
        ]
        raise InvalidRequest(
            message=f"The field {name!r} does not declare {use}; these do: "
            f"{', '.join(allowed) or 'none'}.",
            param=param,
        )
    return field


def _json_value(value: Any, field: Field | None, metric: Metric) -> Any:
    """Convert to JSON: numbers, RFC 3339 instants and dates."""
    if isinstance(value, datetime):
        text = value.isoformat().replace("+00:00", "Z")
        return text[:10] if field is not None and field.kind == "date" else text
    if value is None:
        return 0 if metric == "sum" else None
    if isinstance(value, Decimal):
        is_exact_integer = value == value.to_integral_value() and abs(value) <= MAX_EXACT_INTEGER
        return int(value) if is_exact_integer else float(value)
    return value


def _group_key(key: Any, by: Field | TimeBuckets) -> Any:
    if isinstance(by, Field) and by.kind == "boolean" and key is not None:
        return key == "true"
    if isinstance(by, Field) and by.kind == "number" and key is not None:
        return _json_value(Decimal(key), by, "min")
    return key
