"""aggregate: count, sum, minimum, maximum and groups, computed by the server."""

from typing import Any

from evidence import limits
from evidence.item_lines import origin_mark
from evidence.json_text import dumps, wire_size
from mcp_adapter import budget as budgets
from mcp_adapter import rest_params
from mcp_adapter.arguments import choice, string, string_list
from mcp_adapter.errors import AdapterError
from mcp_adapter.tool import Call, Result, Tool

_HEAD_MEMBERS = ("metric", "metrics", "stream", "field", "values", "group_by", "group_by_time",
                 "granularity")  # fmt: skip
_GROUP_MEMBERS = ("time_zone", "other_count", "next_cursor")
_NEXT_STEP = "query_records(stream, filter) lists the records"
_NEXT_PAGE = "aggregate with the same arguments and cursor=next_cursor shows more groups; "


def render(structured: dict[str, Any], *, max_bytes: int) -> str:
    """Return the value, or the groups that fit, with the others counted in `groups_left_out`."""
    body = structured["data"]
    groups = body.get("groups")
    names = _HEAD_MEMBERS if groups is None else _HEAD_MEMBERS + _GROUP_MEMBERS
    head = {name: body[name] for name in names if body.get(name) is not None}
    if warnings := body.get("meta", {}).get("warnings"):
        head["warnings"] = warnings
    if groups is None:
        value = {} if "values" in head else {"value": body.get("value")}
        return dumps({**head, **value, "next": _NEXT_STEP})
    if groups and ("keys" in groups[0] or "values" in groups[0]):
        head["columns"] = _columns(body, groups[0])
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
    rows = [_row(group) for group in groups[:count]]
    left_out = len(groups) - count
    if not left_out:
        more = _NEXT_PAGE if "next_cursor" in head else ""
        return {**head, "groups": rows, "next": f"{more}{_NEXT_STEP}"}
    head = {name: value for name, value in head.items() if name != "next_cursor"}
    fewer = f"aggregate with limit={max(count, 1)} or a filter shows fewer groups; "
    return {**head, "groups": rows, "groups_left_out": left_out, "next": f"{fewer}{_NEXT_STEP}"}


def _row(group: dict[str, Any]) -> list[Any]:
    """Return the keys and values of a group. Groups of a count have no value, only the count."""
    keys = group["keys"] if "keys" in group else [group.get("key")]
    values = group["values"].values() if "values" in group else [group.get("value", group["count"])]
    return [*keys, *values]


def _columns(body: dict[str, Any], group: dict[str, Any]) -> list[str]:
    keys = [*(body.get("group_by") or "").split(","), body.get("group_by_time")]
    return [*filter(None, keys), *group.get("values", [body.get("metric")])]


DESCRIPTION = (
    "Count, sum, avg, min, max or count_distinct over one stream, whole or by up to two keys: "
    "fields, or a field and time (read-only; GET /v1/streams/{stream}/aggregate). Numbers, never "
    "record bodies: use it before listing. schema(stream) says what can be aggregated. "
    "group_by_time needs granularity. Narrow with filter; cursor shows the groups counted in "
    "other_count. May be shown as structured output."
)
ARGUMENTS = (
    rest_params.STREAM,
    choice("metric", ("count", "sum", "avg", "min", "max", "count_distinct")),
    string_list("metrics", "Several, as sum or avg:field", max_items=8),
    string("field", "For all but count"),
    string("group_by", "Field, or two: a,b"),
    string("group_by_time", "Time field"),
    choice("granularity", ("minute", "hour", "day", "week", "month", "quarter", "year")),
    string("time_zone", "IANA name, default UTC"),
    string("sort", "key or metric, - for descending"),
    rest_params.limit_argument("Groups, 1 to 100"),
    rest_params.CURSOR,
    rest_params.FILTER,
    rest_params.CONNECTION_ID,
    budgets.max_bytes_argument(budgets.PAGE),
)
_FORWARDED = (
    "metric",
    "metrics",
    "field",
    "group_by",
    "group_by_time",
    "granularity",
    "time_zone",
    "sort",
    "cursor",
    "filter",
    "connection_id",
)
_HEAD_BYTES = 800
"""Room for everything but the groups, in each channel."""


def run(call: Call) -> Result:
    """Read the aggregate, and drop groups until the result fits the budget."""
    arguments = call.arguments
    if not {"metric", "metrics"} & set(arguments):
        raise AdapterError(
            "missing_argument",
            "aggregate needs metric, or metrics for several at once.",
            param="metric",
            next_step='Call aggregate again with metric="count", for example.',
        )
    is_grouped = "group_by" in arguments or "group_by_time" in arguments
    default = budgets.PAGE if is_grouped else budgets.AGGREGATE
    budget = budgets.requested_budget(arguments, default=default)
    path = f"{rest_params.stream_path(arguments['stream'])}/aggregate"
    params = rest_params.query_params(arguments, *_FORWARDED)
    if is_grouped:
        params += [
            ("limit", str(arguments.get("limit", limits.GROUPS_MAX))),
            budgets.limit_param("max_bytes", budget.structured - _HEAD_BYTES),
            budgets.limit_param("max_line_bytes", budget.text - _HEAD_BYTES),
        ]
    else:
        params += rest_params.query_params(arguments, "limit")
    body = call.get_json(path, params)
    while True:
        structured = {"data": body, "origin": origin_mark(body)}
        result = Result(structured, render(structured, max_bytes=budget.text))
        if budget.allows(result):
            return result
        if not body.get("groups"):
            raise AdapterError(
                "result_too_large",
                "The aggregate is larger than the result may be.",
                next_step="Call aggregate again with a larger max_bytes, or with a filter.",
            )
        body = {**budgets.drop_groups(body), "next_cursor": None}


TOOL = Tool("aggregate", "Aggregate records", DESCRIPTION, ARGUMENTS, run)
