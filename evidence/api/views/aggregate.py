"""``GET /v1/streams/{stream}/aggregate``."""

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
from evidence.api.query_parameters import CONNECTION, Parameters
from evidence.errors import InvalidRequest
from evidence.ledger.entries import Shown
from evidence.reading import aggregate, records


class AggregateView(GrantedView):
    parameters = CONNECTION | {
        "metric", "field", "group_by", "group_by_time", "granularity", "time_zone", "limit", "filter",
    }  # fmt: skip

    def get(self, request: Request, stream: str) -> Response:
        visible = self.gate.stream(stream, connection_id=self.query.connection_id())
        where = records.chosen(visible, self.query.nested("filter"))
        wanted = asked(self.query)
        found = aggregate.aggregate(visible, wanted, where)
        self.witnesses = found.witnesses
        return Response(
            envelopes.finished(
                _body(stream, wanted, found),
                self_link=self.query.path,
                warnings=self.query.warnings,
            )
        )

    @override
    def shown_in(self, response: HttpResponseBase) -> Sequence[Shown]:
        """The connections that were counted over, and the records that the numbers disclose."""
        counted = super().shown_in(response)
        stream, fields = counted[0].stream, counted[0].fields
        return [*counted, *(Shown(one, stream, key, fields) for one, key in self.witnesses)]


def asked(query: Parameters) -> aggregate.AggregateRequest:
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
    stream: str, wanted: aggregate.AggregateRequest, found: aggregate.Aggregation
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "object": "aggregation",
        "stream": stream,
        "metric": wanted.metric,
        "field": wanted.field,
        "group_by": wanted.group_by,
        "group_by_time": wanted.group_by_time,
        "approximate": False,
        "filtered_record_count": found.records,
    }
    if wanted.group_by_time is not None:
        body |= {"granularity": wanted.granularity, "time_zone": wanted.time_zone}
    if found.groups is None:
        return body | {"value": found.value}
    groups = [
        {"key": key, "count": n} | ({} if wanted.metric == "count" else {"value": value})
        for key, value, n in found.groups
    ]
    return body | {"groups": groups, "limit": wanted.limit, "other_count": found.other_count}
