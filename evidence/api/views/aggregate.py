"""`GET /v1/streams/{stream}/aggregate`."""

from collections.abc import Sequence
from typing import Any, ClassVar

from rest_framework.request import Request

from evidence import limits
from evidence.access import crypto
from evidence.access.aggregates import METRICS, SEVERAL, Group, Measure
from evidence.access.records import VisibleRecords
from evidence.api import envelopes
from evidence.api.base_views import Answer, Described, GrantedView
from evidence.api.query_parameters import (
    ApiWarning,
    parse_conditions,
    resolved,
    unmatched_warnings,
)
from evidence.declarations.declaration import NUMBER_AGGREGATIONS
from evidence.declarations.roles import money_format
from evidence.errors import InvalidRequest
from evidence.item_lines import group_line
from evidence.ledger.entries import DisclosedItem
from evidence.page_cutter import cut_group, dumps, group_keys, json_size, wire_size
from evidence.parameters import Aggregate
from evidence.read import aggregate, filters


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
        found = aggregate.aggregate(visible, aggregate_request, where)
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

    def _parse(self, visible: VisibleRecords) -> aggregate.AggregateRequest:
        query = self.query
        metrics = query.metrics or []
        if bool(metrics) == (query.metric is not None) or len(metrics) > aggregate.MAX_METRICS:
            raise InvalidRequest(
                message=f"Give metric, which takes {' or '.join(METRICS)}; or metrics, a list of up "
                f"to {aggregate.MAX_METRICS}, such as count,sum,avg:amount.",
                param="metric",
            )
        grouped = query.group_by is not None or query.group_by_time is not None
        if query.limit is not None and not grouped:
            raise InvalidRequest(
                message=f"limit takes 1 to {limits.GROUPS_MAX}, with group_by or group_by_time only.",
                param="limit",
            )
        return aggregate.AggregateRequest(
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


def _body(
    stream: str, request: aggregate.AggregateRequest, found: aggregate.Aggregation
) -> dict[str, Any]:
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


def _group(
    request: aggregate.AggregateRequest, group: Group, measures: Sequence[Measure]
) -> dict[str, Any]:
    body = {**group_keys(group.keys), "count": group.records}
    is_count = list(request.metrics) == ["count"]
    return body | ({} if is_count else _values(request, group, measures))


def _values(
    request: aggregate.AggregateRequest, group: Group, measures: Sequence[Measure]
) -> dict[str, Any]:
    """Return the values, and those with a currency also as money."""
    amounts = zip(request.metrics, aggregate.money_of(group, measures), measures, strict=True)
    money = {
        metric: _SEVERAL_CURRENCIES if amount == SEVERAL else amount
        for metric, amount, measure in amounts
        if measure.currency
    }
    values = dict(zip(request.metrics, group.values, strict=True))
    body = {"value": group.values[0]} if len(values) == 1 else {"values": values}
    return {**body, **({"money": money} if money else {})}


_SEVERAL_CURRENCIES = "several currencies"


def _money_warnings(found: aggregate.Aggregation, metrics: Sequence[str]) -> list[ApiWarning]:
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
