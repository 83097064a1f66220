"""aggregate: count, sum, minimum, maximum and groups, computed by the server."""

from typing import Any

from mcp_adapter import budget as budgets
from mcp_adapter import labels, rest_params
from mcp_adapter.arguments import choice, string
from mcp_adapter.errors import AdapterError
from mcp_adapter.json_text import dumps, wire_size
from mcp_adapter.tool import Call, Result, Tool

_HEAD_MEMBERS = ("metric", "stream", "field", "value", "group_by", "group_by_time", "granularity")
_GROUP_MEMBERS = ("time_zone", "other_count")
_NEXT_STEP = "query_records(stream, filter) lists the records"


def render(structured: dict[str, Any], *, max_bytes: int) -> str:
    """Return the value, or the groups that fit, with the others counted in `groups_left_out`."""
    body = structured["data"]
    groups = body.get("groups")
    names = _HEAD_MEMBERS if groups is None else _HEAD_MEMBERS + _GROUP_MEMBERS
    head = {name: body[name] for name in names if body.get(name) is not None}
    if warnings := body.get("meta", {}).get("warnings"):
        head["warnings"] = warnings
    if groups is None:
        return dumps({**head, "value": body.get("value"), "next": _NEXT_STEP})
    text, count = "", len(groups)
    while count >= 0:
        text = dumps(_with_groups(head, groups, count=count))
        if wire_size(text) <= max_bytes:
            return text
        count = count - 1 if count < 8 else count * 3 // 4
    return text


def _with_groups(
    head: dict[str, Any], groups: list[dict[str, Any]], *, count: int
) -> dict[str, Any]:
    # Groups of a count have no value, only the count.
    pairs = [[group.get("key"), group.get("value", group.get("count"))] for group in groups[:count]]
    left_out = len(groups) - count
    if not left_out:
        return {**head, "groups": pairs, "next": _NEXT_STEP}
    fewer = f"aggregate with limit={max(count, 1)} or a filter shows fewer groups; "
    return {**head, "groups": pairs, "groups_left_out": left_out, "next": f"{fewer}{_NEXT_STEP}"}


DESCRIPTION = (
    "Count, sum, min, max or count_distinct over one stream, whole or grouped by a field or by time "
    "(read-only; GET /v1/streams/{stream}/aggregate). Gives numbers, never record bodies: use it "
    "before listing. schema(stream) says which fields can be aggregated. group_by_time needs "
    "granularity. Records of groups beyond limit are counted in other_count. Narrow with filter; "
    "structured output is visible too."
)
ARGUMENTS = (
    rest_params.STREAM,
    choice("metric", ("count", "sum", "min", "max", "count_distinct"), required=True),
    string("field", "For every metric but count"),
    string("group_by", "Field to group by"),
    string("group_by_time", "Time field to group by"),
    choice("granularity", ("minute", "hour", "day", "week", "month", "quarter", "year")),
    string("time_zone", "IANA name, default UTC"),
    rest_params.limit_argument("Groups, 1 to 100, default 10"),
    rest_params.FILTER,
    rest_params.CONNECTION_ID,
    budgets.MAX_BYTES,
)
_FORWARDED = (
    "metric",
    "field",
    "group_by",
    "group_by_time",
    "granularity",
    "time_zone",
    "limit",
    "filter",
    "connection_id",
)


def run(call: Call) -> Result:
    """Read the aggregate, and drop groups until the result fits the budget."""
    arguments = call.arguments
    is_grouped = "group_by" in arguments or "group_by_time" in arguments
    default = budgets.PAGE if is_grouped else budgets.AGGREGATE
    budget = budgets.requested_budget(arguments, default=default, ratio=budgets.PAGE)
    path = f"{rest_params.stream_path(arguments['stream'])}/aggregate"
    body = call.get_json(path, rest_params.query_params(arguments, *_FORWARDED))
    while True:
        structured = {"data": body, "origin": labels.origin_mark(body)}
        result = Result(structured, render(structured, max_bytes=budget.text))
        if budget.allows(result):
            return result
        if not body.get("groups"):
            raise AdapterError(
                "result_too_large",
                "The aggregate is larger than the result may be.",
                next_step="Call aggregate again with a larger max_bytes, or with a filter.",
            )
        body = budgets.drop_groups(body)


TOOL = Tool("aggregate", "Aggregate records", DESCRIPTION, ARGUMENTS, run)
