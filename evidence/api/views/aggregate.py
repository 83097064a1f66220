"""Compute counts, sums and histograms: `GET /v1/streams/{stream}/aggregate` (contract 3.7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Final, cast

from rest_framework.request import Request

from evidence import limits
from evidence.access import crypto
from evidence.access.aggregates import (
    METRICS,
    SEVERAL,
    SMALL_GROUP,
    Group,
    GroupPage,
    Key,
    Measure,
    TimeBuckets,
    Totals,
    aggregate_groups,
    aggregate_total,
    is_time_zone,
)
from evidence.access.records import RecordKey, VisibleRecords
from evidence.access.sql import SQL
from evidence.api import envelopes
from evidence.api.base_views import (
    Answer,
    ApiWarning,
    Described,
    GrantedView,
    parse_conditions,
    resolved,
    unmatched_warnings,
)
from evidence.declarations.declaration import (
    NUMBER_AGGREGATIONS,
    Field,
    is_aggregatable,
    is_long_text,
    money_format,
)
from evidence.errors import InvalidRequest
from evidence.item_lines import group_line
from evidence.ledger.entries import DisclosedItem
from evidence.page_cutter import cut_group, dumps, group_keys, json_size, wire_size
from evidence.parameters import Aggregate, Metric
from evidence.read import filters

MAX_EXACT_INTEGER = 2**63 - 1
MAX_METRICS: Final = 8
MAX_KEYS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateRequest:
    """A metric is ``name`` or ``name:field``; without a field it is over ``field``."""

    metrics: Sequence[str]
    field: str | None
    group_by: Sequence[str]
    group_by_time: str | None
    granularity: str | None
    time_zone: str
    sort: str | None
    start: int
    limit: int


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One group without keys, or a page of groups.

    ``fields`` are those that the numbers disclose.
    """

    groups: list[Group]
    measures: Sequence[Measure]
    records: int
    fields: frozenset[str]
    before: int = 0
    rest: frozenset[RecordKey] = frozenset()

    def other_count(self, shown: int) -> int:
        """Return the number of records in groups after the first ``shown``."""
        return self.records - self.before - sum(group.records for group in self.groups[:shown])

    def witnesses(self, shown: int) -> frozenset[RecordKey]:
        """Return the records that the first ``shown`` groups and the number of others disclose."""
        disclosed = self.groups[:shown]
        named = frozenset[RecordKey]().union(*(group.witnesses for group in disclosed))
        if self.other_count(shown) >= SMALL_GROUP:
            return named
        return named.union(self.rest, *(group.witnesses for group in self.groups[shown:]))


def aggregate(
    visible: VisibleRecords, request: AggregateRequest, where: Sequence[SQL]
) -> Aggregation:
    """Aggregate over every connection of the stream, in one query."""
    measures = [_measure(visible, name, request) for name in request.metrics]
    keys = _keys(visible, request)
    fields = frozenset(
        field.name
        for field in (
            *(field for m in measures for field in (m.field, m.currency)),
            *map(_field_of, keys),
        )
        if field
    )
    if not keys:
        if request.sort is not None:
            raise InvalidRequest(message="sort needs group_by or group_by_time.", param="sort")
        totals = aggregate_total(visible, measures, where)
    else:
        totals = aggregate_groups(visible, measures, keys, where, page=_group_page(request, keys))
    return _aggregation(totals, measures, keys, fields)


def _aggregation(
    totals: Totals, measures: Sequence[Measure], keys: Sequence[Key], fields: frozenset[str]
) -> Aggregation:
    groups = [
        Group(
            tuple(map(_group_key, group.keys, keys)),
            tuple(
                _json_value(value, measure.field, measure.metric)
                for value, measure in zip(group.values, measures, strict=True)
            ),
            group.currencies,
            group.records,
            group.witnesses,
        )
        for group in totals.groups
    ]
    return Aggregation(groups, measures, totals.records, fields, totals.before, totals.rest)


def money_of(group: Group, measures: Sequence[Measure]) -> list[str | None]:
    """Return the amount of money of each value, ``SEVERAL`` currencies, or None if it is none."""
    return [
        _money(value, measure, currency)
        for value, measure, currency in zip(group.values, measures, group.currencies, strict=True)
    ]


def _money(value: Any, measure: Measure, currency: str | None) -> str | None:
    declared = money_format(measure.field) if measure.field and measure.currency else None
    if declared is None or currency in (None, "", SEVERAL):
        return currency or None
    if measure.metric == "avg":
        value = round(value) if declared.is_minor else round(value, 2)
    return declared.text(value, currency)


def _measure(visible: VisibleRecords, name: str, request: AggregateRequest) -> Measure:
    param = "metric" if len(request.metrics) == 1 else "metrics"
    metric, _, own_field = name.partition(":")
    if metric not in METRICS:
        raise InvalidRequest(message=f"{param} takes {' or '.join(METRICS)}.", param=param)
    field = own_field or (request.field if metric != "count" or param == "metric" else None)
    if metric == "count":
        if field:
            raise InvalidRequest(message="count takes no field.", param="field")
        return Measure("count")
    if not field:
        raise InvalidRequest(message=f"{metric} needs a field.", param="field")
    checked = _aggregatable_field(visible, field, metric, param="field")
    declared = money_format(checked) if metric in NUMBER_AGGREGATIONS else None
    by = declared.currency_field if declared else None
    currency = visible.stream.fields.get(by) if by and visible.can_filter_by(by) else None
    return Measure(cast(Metric, metric), checked, currency)


def _keys(visible: VisibleRecords, request: AggregateRequest) -> list[Key]:
    keys: list[Key] = [
        _aggregatable_field(visible, name, "group_by", param="group_by")
        for name in request.group_by
    ]
    if request.group_by_time is not None:
        keys.append(_time_buckets(visible, request))
    elif request.granularity is not None:
        raise InvalidRequest(message="granularity needs group_by_time.", param="granularity")
    if len(keys) > MAX_KEYS:
        raise InvalidRequest(
            message=f"Group by at most {MAX_KEYS} keys, group_by_time included.", param="group_by"
        )
    return keys


def _time_buckets(visible: VisibleRecords, request: AggregateRequest) -> TimeBuckets:
    if request.granularity is None:
        raise InvalidRequest(message="group_by_time needs a granularity.", param="granularity")
    if not is_time_zone(request.time_zone):
        raise InvalidRequest(
            message="time_zone takes an IANA name, such as Europe/Berlin.", param="time_zone"
        )
    field = _aggregatable_field(
        visible, str(request.group_by_time), "group_by_time", param="group_by_time"
    )
    return TimeBuckets(field, request.granularity, request.time_zone)


def _group_page(request: AggregateRequest, keys: Sequence[Key]) -> GroupPage:
    """Return the page. Without ``sort``, periods are in order of time, other groups by size."""
    end = request.start + request.limit
    name = (request.sort or "").removeprefix("-")
    descending = name != request.sort
    if request.sort is None:
        is_timed = any(isinstance(key, TimeBuckets) for key in keys)
        return GroupPage(request.start, end, None if is_timed else -1, descending=not is_timed)
    if name == "key":
        return GroupPage(request.start, end, None, descending)
    orders: Mapping[str, int] = {"count": -1, "value": 0} | {
        metric: at for at, metric in enumerate(request.metrics)
    }
    if name not in orders:
        raise InvalidRequest(
            message=f"sort takes key or {' or '.join(orders)}, with - for descending.", param="sort"
        )
    return GroupPage(request.start, end, orders[name], descending)


def _aggregatable_field(visible: VisibleRecords, name: str, use: str, *, param: str) -> Field:
    field = visible.filter_field(name, param=param)
    if not is_aggregatable(field, use):
        allowed = [
            other.name
            for other in visible.stream.fields.values()
            if is_aggregatable(other, use) and visible.can_filter_by(other.name)
        ]
        raise InvalidRequest(
            message=f"The field {name!r} ({'a long text' if is_long_text(field) else field.kind}) does"
            f" not declare {use}. Fields that allow it: {', '.join(allowed) or 'none'}.",
            param=param,
        )
    return field


def _field_of(key: Key) -> Field:
    return key.field if isinstance(key, TimeBuckets) else key


def _json_value(value: Any, field: Field | None, metric: Metric) -> Any:
    """Convert to JSON: numbers, RFC 3339 instants and dates."""
    if isinstance(value, datetime):
        text = value.isoformat().replace("+00:00", "Z")
        return text[:10] if field is not None and field.kind == "date" else text
    if value is None:
        return 0 if metric == "sum" else None
    if isinstance(value, Decimal):
        is_exact_integer = value == value.to_integral_value() and abs(value) <= MAX_EXACT_INTEGER
        if is_exact_integer:
            return int(value)
        return round(float(value), 6) if metric == "avg" else float(value)
    return value


def _group_key(value: Any, by: Key) -> Any:
    if isinstance(by, Field) and by.kind == "boolean" and value is not None:
        return value == "true"
    if isinstance(by, Field) and by.kind == "number" and value is not None:
        return _json_value(Decimal(value), by, "min")
    return value


class AggregateView(GrantedView):
    """Count, sum and group the records of a stream."""

    route = "aggregate"
    described: ClassVar = {"GET": Described("Aggregation")}
    parameters = Aggregate
    query: Aggregate

    def get(self, request: Request, stream: str) -> Answer:
        visible = self.gate.stream(stream, connection_id=self.query.connection_id)
        where = parse_conditions(visible, self.query)
        aggregate_request = self._parse(visible)
        found = aggregate(visible, aggregate_request, where)
        body = _body(stream, aggregate_request, found)
        self.warnings += _money_warnings(found, aggregate_request.metrics)
        shown = 1
        if "groups" in body:
            shown = self._fit(body)
            body["other_count"] = found.other_count(shown)
            if body["other_count"]:
                body["next_cursor"] = self._cursor(visible, aggregate_request.start + shown)
        checked = filters.find_unmatched(
            visible, self.query.filter or (), is_empty=not found.records
        )
        self.warnings += unmatched_warnings(checked.unmatched)
        fields = self.filter_fields(visible) | found.fields
        disclosed = [
            *envelopes.stream_items(visible, fields=fields),
            *(DisclosedItem(one, stream, key, fields) for one, key in found.witnesses(shown)),
            *(
                DisclosedItem(one, stream, key, frozenset({field}))
                for one, key, field in checked.witnesses
            ),
        ]
        answer = envelopes.with_links_and_meta(body, self_link=self.url, warnings=self.warnings)
        return Answer(answer, disclosed, counted=found.records)

    def _parse(self, visible: VisibleRecords) -> AggregateRequest:
        query = self.query
        metrics = query.metrics or []
        if bool(metrics) == (query.metric is not None) or len(metrics) > MAX_METRICS:
            raise InvalidRequest(
                message=f"Give metric, which takes {' or '.join(METRICS)}; or metrics, a list of up "
                f"to {MAX_METRICS}, such as count,sum,avg:amount.",
                param="metric",
            )
        grouped = query.group_by is not None or query.group_by_time is not None
        if query.limit is not None and not grouped:
            raise InvalidRequest(
                message=f"limit takes 1 to {limits.GROUPS_MAX}, with group_by or group_by_time only.",
                param="limit",
            )
        return AggregateRequest(
            metrics=metrics or [str(query.metric)],
            field=query.field,
            group_by=query.group_by or [],
            group_by_time=query.group_by_time,
            granularity=query.granularity,
            time_zone=query.time_zone or "UTC",
            sort=query.sort,
            start=self._start(visible),
            limit=query.limit or limits.GROUPS_DEFAULT,
        )

    def _fit(self, body: dict[str, Any]) -> int:
        """Drop the last groups until the response fits the byte limits. Returns how many remain."""
        form = envelopes.parse_list_form(self.query)
        groups, head = body["groups"], body | {"groups": []}
        if form.total is not None:
            groups = [cut_group(group, form.total // _KEY_PART) for group in groups]
        envelope = envelopes.envelope_size(
            form, url=self.url, warnings=self.warnings, cursor=_CURSOR_BYTES
        )
        total, lines = json_size(head) + envelope.structured, wire_size(dumps(head)) + envelope.text
        shown = 0
        for group in groups:
            total += json_size(group) + 1
            lines += wire_size(dumps(group_line(group))) - 1
            too_large = form.total is not None and total > form.total
            too_long = form.lines is not None and lines > form.lines
            if shown and (too_large or too_long):
                break
            shown += 1
        body["groups"] = groups[:shown]
        return shown

    def _query(self, visible: VisibleRecords) -> dict[str, Any]:
        """Return the query that a cursor is bound to."""
        return {**self.query.binding(), **resolved(visible)}

    def _cursor(self, visible: VisibleRecords, start: int) -> str:
        return crypto.encode_cursor(
            "groups", scope=self.scope, query=self._query(visible), place={"g": start}
        )

    def _start(self, visible: VisibleRecords) -> int:
        if self.query.cursor is None:
            return 0
        query = self._query(visible)
        return int(
            crypto.decode_cursor(self.query.cursor, "groups", scope=self.scope, query=query)["g"]
        )


_CURSOR_BYTES = 256
"""Room for the cursor of the next page."""
_KEY_PART = 8
"""A key of a group takes at most one part in so many of `max_bytes`."""


def _body(stream: str, request: AggregateRequest, found: Aggregation) -> dict[str, Any]:
    body: dict[str, Any] = {
        "object": "aggregation",
        "stream": stream,
        "field": request.field,
        "group_by": ",".join(request.group_by) or None,
        "group_by_time": request.group_by_time,
        "approximate": False,
        "filtered_record_count": found.records,
    }
    name = "metric" if len(request.metrics) == 1 else "metrics"
    body[name] = request.metrics[0] if name == "metric" else list(request.metrics)
    if request.group_by_time is not None:
        body |= {"granularity": request.granularity, "time_zone": request.time_zone}
    if not request.group_by and request.group_by_time is None:
        return body | _values(request, found.groups[0], found.measures)
    groups = [_group(request, group, found.measures) for group in found.groups]
    return body | {"groups": groups, "limit": request.limit, "other_count": 0}


def _group(request: AggregateRequest, group: Group, measures: Sequence[Measure]) -> dict[str, Any]:
    body = {**group_keys(group.keys), "count": group.records}
    is_count = list(request.metrics) == ["count"]
    return body | ({} if is_count else _values(request, group, measures))


def _values(request: AggregateRequest, group: Group, measures: Sequence[Measure]) -> dict[str, Any]:
    """Return the values, and those with a currency also as money."""
    amounts = zip(request.metrics, money_of(group, measures), measures, strict=True)
    money = {
        metric: _SEVERAL_CURRENCIES if amount == SEVERAL else amount
        for metric, amount, measure in amounts
        if measure.currency
    }
    values = dict(zip(request.metrics, group.values, strict=True))
    body = {"value": group.values[0]} if len(values) == 1 else {"values": values}
    return {**body, **({"money": money} if money else {})}


_SEVERAL_CURRENCIES = "several currencies"


def _money_warnings(found: Aggregation, metrics: Sequence[str]) -> list[ApiWarning]:
    """Name each sum of several currencies, and money in a currency that is not granted."""
    warnings = []
    for at, (metric, measure) in enumerate(zip(metrics, found.measures, strict=True)):
        if measure.currency and any(group.currencies[at] == SEVERAL for group in found.groups):
            warnings.append(
                ApiWarning(
                    "several_currencies",
                    f"{metric} covers several currencies; group_by {measure.currency.name}, or filter "
                    "by it, tells them apart.",
                    "metric",
                )
            )
        declared = money_format(measure.field) if measure.field and not measure.currency else None
        if declared and declared.is_minor and measure.metric in NUMBER_AGGREGATIONS:
            message = (
                f"{metric} is in minor units (such as cents) of a currency that is not granted."
            )
            warnings.append(ApiWarning("currency_not_granted", message, "metric"))
    return warnings
