"""`GET /v1/streams/{stream}/aggregate`."""

from collections.abc import Sequence
from typing import Any, cast

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence import limits
from evidence.access.aggregates import GRANULARITIES, METRICS, Metric
from evidence.api import envelopes
from evidence.api.base_views import GrantedView
from evidence.api.query_parameters import CONNECTION_PARAMETERS, QueryParameters
from evidence.errors import InvalidRequest
from evidence.ledger.entries import DisclosedItem
from evidence.reading import aggregate, records


class AggregateView(GrantedView):
    parameters = CONNECTION_PARAMETERS | {
        "metric", "field", "group_by", "group_by_time", "granularity", "time_zone", "limit", "filter",
    }  # fmt: skip

    def get(self, request: Request, stream: str) -> Response:
        visible = self.gate.stream(stream, connection_id=self.query.connection_id())
        where = records.parse_filters(visible, self.query.nested("filter"))
        aggregate_request = parse_aggregate(self.query)
        found = aggregate.aggregate(visible, aggregate_request, where)
        self.witnesses = found.witnesses
        return Response(
            envelopes.with_links_and_meta(
                _body(stream, aggregate_request, found),
                self_link=self.query.path,
                warnings=self.query.warnings,
            )
        )

    @override
    def disclosed_in(self, response: HttpResponseBase) -> Sequence[DisclosedItem]:
        """Return the counted connections, and the records that small numbers disclose."""
        counted = super().disclosed_in(response)
        stream, fields = counted[0].stream, counted[0].fields
        return [*counted, *(DisclosedItem(one, stream, key, fields) for one, key in self.witnesses)]


def parse_aggregate(query: QueryParameters) -> aggregate.AggregateRequest:
    metric = query.choice("metric", *METRICS, default="")
    if not metric:
        raise InvalidRequest(message=f"metric takes {' or '.join(METRICS)}.", param="metric")
    grouped = query.text("group_by") is not None or query.text("group_by_time") is not None
    limit = query.integer("limit")
    if limit is not None and (not grouped or not 1 <= limit <= limits.GROUPS_MAX):
        raise InvalidRequest(
            message=f"limit takes 1 to {limits.GROUPS_MAX}, with group_by or group_by_time only.",
            param="limit",
        )
    return aggregate.AggregateRequest(
        metric=cast(Metric, metric),
        field=query.text("field"),
        group_by=query.text("group_by"),
        group_by_time=query.text("group_by_time"),
        granularity=query.choice("granularity", *GRANULARITIES, default="") or None,
        time_zone=query.text("time_zone") or "UTC",
        limit=limit or limits.GROUPS_DEFAULT,
    )


def _body(
    stream: str, aggregate_request: aggregate.AggregateRequest, found: aggregate.Aggregation
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "object": "aggregation",
        "stream": stream,
        "metric": aggregate_request.metric,
        "field": aggregate_request.field,
        "group_by": aggregate_request.group_by,
        "group_by_time": aggregate_request.group_by_time,
        "approximate": False,
        "filtered_record_count": found.records,
    }
    if aggregate_request.group_by_time is not None:
        body |= {
            "granularity": aggregate_request.granularity,
            "time_zone": aggregate_request.time_zone,
        }
    if found.groups is None:
        return body | {"value": found.value}
    groups = [
        {"key": key, "count": n} | ({} if aggregate_request.metric == "count" else {"value": value})
        for key, value, n in found.groups
    ]
    return body | {
        "groups": groups,
        "limit": aggregate_request.limit,
        "other_count": found.other_count,
    }
