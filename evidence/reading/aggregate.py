"""Counts, sums and histograms over visible records (contract 3.7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from evidence.access.aggregates import (
    Buckets,
    Metric,
    Totals,
    Witness,
    grouped,
    is_time_zone,
    total,
)
from evidence.access.records import VisibleRecords
from evidence.access.sql import Fragment
from evidence.declarations.declaration import Field
from evidence.errors import InvalidRequest

LARGEST_EXACT = 2**63 - 1


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
    """``groups`` is None for one ``value``; ``other_count`` are records in groups not shown;
    ``witnesses`` are the records that the numbers disclose."""

    records: int
    value: Any
    groups: list[tuple[Any, Any, int]] | None
    other_count: int
    witnesses: frozenset[Witness]


def aggregate(
    visible: VisibleRecords, request: AggregateRequest, where: Sequence[Fragment]
) -> Aggregation:
    """One query, over every connection of the stream."""
    field = _measured(visible, request)
    by = _grouping(visible, request)
    if by is None:
        found = total(visible, request.metric, field, where)
        value = _json(found.rows[0][1], field, request.metric)
        return Aggregation(found.records, value, None, 0, found.witnesses)
    found = grouped(visible, request.metric, field, by, where, limit=request.limit)
    return Aggregation(
        found.records,
        None,
        [(_key(key, by), _json(value, field, request.metric), n) for key, value, n in found.rows],
        _others(found),
        found.witnesses,
    )


def _others(found: Totals) -> int:
    return found.records - sum(n for _, _, n in found.rows)


def _measured(visible: VisibleRecords, request: AggregateRequest) -> Field | None:
    if request.metric == "count":
        if request.field is not None:
            raise InvalidRequest(message="count takes no field.", param="field")
        return None
    if request.field is None:
        raise InvalidRequest(message=f"{request.metric} needs a field.", param="field")
    return _declared(visible, request.field, request.metric, param="field")


def _grouping(visible: VisibleRecords, request: AggregateRequest) -> Field | Buckets | None:
    if request.group_by is not None and request.group_by_time is not None:
        raise InvalidRequest(
            message="Give group_by or group_by_time, not both.", param="group_by_time"
        )
    if request.group_by is not None:
        _no_granularity(request)
        return _declared(visible, request.group_by, "group_by", param="group_by")
    if request.group_by_time is None:
        _no_granularity(request)
        return None
    if request.granularity is None:
        raise InvalidRequest(message="group_by_time needs a granularity.", param="granularity")
    if not is_time_zone(request.time_zone):
        raise InvalidRequest(
            message="time_zone takes an IANA name, such as Europe/Berlin.", param="time_zone"
        )
    field = _declared(visible, request.group_by_time, "group_by_time", param="group_by_time")
    return Buckets(field, request.granularity, request.time_zone)


def _no_granularity(request: AggregateRequest) -> None:
    if request.granularity is not None:
        raise InvalidRequest(message="granularity needs group_by_time.", param="granularity")


def _declared(visible: VisibleRecords, name: str, use: str, *, param: str) -> Field:
    field = visible.filter_field(name, param=param)
    if use not in field.aggregations:
        allowed = [each.name for each in visible.stream.fields.values() if use in each.aggregations]
        raise InvalidRequest(
            message=f"The field {name!r} does not declare {use}; these do: "
            f"{', '.join(allowed) or 'none'}.",
            param=param,
        )
    return field


def _json(value: Any, field: Field | None, metric: Metric) -> Any:
    """Numbers as JSON numbers, instants as RFC 3339, dates as dates."""
    if isinstance(value, datetime):
        text = value.isoformat().replace("+00:00", "Z")
        return text[:10] if field is not None and field.kind == "date" else text
    if value is None:
        return 0 if metric == "sum" else None
    if isinstance(value, Decimal):
        whole = value == value.to_integral_value() and abs(value) <= LARGEST_EXACT
        return int(value) if whole else float(value)
    return value


def _key(key: Any, by: Field | Buckets) -> Any:
    if isinstance(by, Field) and by.kind == "boolean" and key is not None:
        return key == "true"
    if isinstance(by, Field) and by.kind == "number" and key is not None:
        return _json(Decimal(key), by, "min")
    return key
