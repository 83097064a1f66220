"""aggregate: counts, sums, extremes and groups, computed by the server."""

from typing import Any

from mcp_adapter import arguments, labels, rest_params
from mcp_adapter import budget as budgets
from mcp_adapter.budget import shrunk_groups
from mcp_adapter.errors import AdapterError
from mcp_adapter.json_text import dumps, wire_size
from mcp_adapter.tool import Call, Result, Tool

_SAID = ("metric", "stream", "field", "value", "group_by", "group_by_time", "granularity")
_NEXT = "query_records(stream, filter) lists the records"


def render(structured: dict[str, Any], *, most: int) -> str:
    """The value, or as many groups as fit, the rest counted in `groups_left_out`."""
    body = structured["data"]
    said = {name: body[name] for name in _SAID if body.get(name) is not None}
    if warnings := body.get("meta", {}).get("warnings"):
        said["warnings"] = warnings
    groups = body.get("groups")
    if groups is None:
        return dumps({**said, "value": body.get("value"), "next": _NEXT})
    said |= {
        name: body[name] for name in ("time_zone", "other_count") if body.get(name) is not None
    }
    text, shown = "", len(groups)
    while shown >= 0:
        text = dumps(_grouped(said, groups, shown=shown))
        if wire_size(text) <= most:
            return text
        shown = shown - 1 if shown < 8 else shown * 3 // 4
    return text


def _grouped(said: dict[str, Any], groups: list[dict[str, Any]], *, shown: int) -> dict[str, Any]:
    left_out = len(groups) - shown
    rest: dict[str, Any] = {"groups_left_out": left_out} if left_out else {}
    more = (
        f"aggregate with limit={max(shown, 1)} or a filter shows fewer groups; " if left_out else ""
    )
    # What was asked of each group; a count where nothing else was.
    pairs = [[group.get("key"), group.get("value", group.get("count"))] for group in groups[:shown]]
    return {**said, "groups": pairs, **rest, "next": f"{more}{_NEXT}"}


DESCRIPTION = (
    "Count, sum, min, max or count_distinct over one stream, whole or grouped by a field or by time "
    "(read-only; GET /v1/streams/{stream}/aggregate). Gives numbers, never record bodies: use it "
    "before listing. schema(stream) says which fields can be aggregated. group_by_time needs "
    "granularity. Records of groups beyond limit are counted in other_count. Narrow with filter; the "
    "structured output may be shown to you as well."
)
ARGUMENTS = (
    rest_params.STREAM,
    arguments.choice("metric", ("count", "sum", "min", "max", "count_distinct"), required=True),
    arguments.text("field", "For every metric but count"),
    arguments.text("group_by", "Field to group by"),
    arguments.text("group_by_time", "Time field to group by"),
    arguments.choice("granularity", ("minute", "hour", "day", "week", "month", "quarter", "year")),
    arguments.text("time_zone", "IANA name, default UTC"),
    rest_params.limit("Groups, 1 to 100, default 10"),
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
    """Read the aggregate; groups that burst the budget are left out by number."""
    given = call.given
    grouped = "group_by" in given or "group_by_time" in given
    default = budgets.PAGE if grouped else budgets.AGGREGATE
    budget = budgets.chosen(given, default=default, wide=budgets.PAGE)
    path = f"{rest_params.stream_path(rest_params.stream_name(given))}/aggregate"
    body = call.get(path, rest_params.params(given, *_FORWARDED))
    structured = {"data": body, "origin": labels.origin(body)}
    result = Result(structured, render(structured, most=budget.text))
    while not budget.holds(result):
        if not body.get("groups"):
            raise _too_large()
        body = shrunk_groups(body)
        structured = {"data": body, "origin": labels.origin(body)}
        result = Result(structured, render(structured, most=budget.text))
    return result


def _too_large() -> AdapterError:
    return AdapterError(
        "result_too_large",
        "The aggregate is larger than the result may be.",
        next_step="Call aggregate again with a larger max_bytes, or with a filter.",
    )


TOOL = Tool("aggregate", "Aggregate records", DESCRIPTION, ARGUMENTS, run)
