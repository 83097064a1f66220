"""aggregate: counts, sums, extremes and groups, computed by the server."""

from mcp_adapter import arguments, budgets, labels, queries
from mcp_adapter.errors import AdapterError
from mcp_adapter.shrinking import shrunk_groups
from mcp_adapter.text.aggregate import render
from mcp_adapter.tool import Call, Result, Tool

DESCRIPTION = (
    "Count, sum, min, max or count_distinct over one stream, whole or grouped by a field or by time "
    "(read-only; GET /v1/streams/{stream}/aggregate). Gives numbers, never record bodies: use it "
    "before listing. schema(stream) says which fields can be aggregated. group_by_time needs "
    "granularity. Records of groups beyond limit are counted in other_count. Narrow with filter; the "
    "structured output may be shown to you as well."
)
ARGUMENTS = (
    queries.STREAM,
    arguments.choice("metric", ("count", "sum", "min", "max", "count_distinct"), required=True),
    arguments.text("field", "For every metric but count"),
    arguments.text("group_by", "Field to group by"),
    arguments.text("group_by_time", "Time field to group by"),
    arguments.choice("granularity", ("minute", "hour", "day", "week", "month", "quarter", "year")),
    arguments.text("time_zone", "IANA name, default UTC"),
    queries.limit("Groups, 1 to 100, default 10"),
    queries.FILTER,
    queries.CONNECTION_ID,
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
    path = f"{queries.stream_path(queries.stream_name(given))}/aggregate"
    body = call.get(path, queries.params(given, *_FORWARDED))
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
