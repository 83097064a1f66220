"""aggregate: count, sum, minimum, maximum and groups, computed by the server."""

from typing import Any

from evidence import limits
from evidence.item_lines import group_line, next_call, origin_mark
from evidence.page_cutter import cut_group, dumps, largest_that_fits
from evidence.parameters import Aggregate
from mcp_adapter.tool import (
    AGGREGATE_BUDGET,
    PAGE_BUDGET,
    STREAM,
    AdapterError,
    Arguments,
    Budget,
    Call,
    Result,
    Tool,
    limit_params,
    max_bytes_argument,
    query_params,
    requested_budget,
    route_params,
    stream_path,
    tool_arguments,
)

_HEAD_MEMBERS = ("metric", "metrics", "stream", "field", "values", "money", "group_by",
                 "group_by_time", "granularity")  # fmt: skip
_GROUP_MEMBERS = ("time_zone", "other_count", "next_cursor", "groups_left_out")
_KEY_PART = 8
"""A key of a group takes at most one part in so many of the text budget."""
_RECORD_ARGUMENTS = ("stream", "connection_id", "filter", "after", "before")


def render(structured: dict[str, Any], *, lean: bool = False) -> str:
    """Return the value, or the groups as rows, and the next steps; if `lean`, only names of warnings."""
    body = structured["data"]
    groups = body.get("groups")
    names = _HEAD_MEMBERS if groups is None else _HEAD_MEMBERS + _GROUP_MEMBERS
    text = {name: body[name] for name in names if body.get(name) is not None}
    if warnings := body.get("meta", {}).get("warnings"):
        text["warnings"] = sorted({each["code"] for each in warnings}) if lean else warnings
    if groups is None:
        text |= {} if "values" in text else {"value": body.get("value")}
    else:
        if groups and ("keys" in groups[0] or "values" in groups[0]):
            text["columns"] = _columns(body, groups[0])
        text["groups"] = [group_line(group) for group in groups]
    return dumps({**text, **({"next": steps} if (steps := structured["next"]) else {})})


def _columns(body: dict[str, Any], group: dict[str, Any]) -> list[str]:
    keys = [*(body.get("group_by") or "").split(","), body.get("group_by_time")]
    money = [f"{metric} as money" for metric in group.get("money", {})]
    return [*filter(None, keys), *group.get("values", [body.get("metric")]), *money]


DESCRIPTION = (
    "Count, sum, avg, min, max or count_distinct over one stream, whole or by up to two keys: "
    "fields, or a field and time (read-only; GET /v1/streams/{stream}/aggregate). Use it "
    "before listing. schema(stream) says what can be aggregated. "
    "group_by_time needs granularity. Narrow with filter; cursor shows the groups counted in "
    "other_count. May be shown as structured output."
)
ARGUMENTS = tool_arguments(
    STREAM,
    "metric",
    "metrics",
    "field",
    "group_by",
    "group_by_time",
    "granularity",
    "time_zone",
    "sort",
    "limit",
    "cursor",
    "filter",
    "after",
    "before",
    "connection_id",
    max_bytes_argument(PAGE_BUDGET),
    route=Aggregate,
)


def run(call: Call) -> Result:
    """Read the aggregate. Of a server that ignores the byte limits, only the groups that fit are shown."""
    arguments = call.arguments
    if not {"metric", "metrics"} & set(arguments):
        raise AdapterError(
            "missing_argument",
            "aggregate needs metric, or metrics for several at once.",
            param="metric",
            next_step='Call aggregate again with metric="count", for example.',
        )
    is_grouped = "group_by" in arguments or "group_by_time" in arguments
    default = PAGE_BUDGET if is_grouped else AGGREGATE_BUDGET
    budget = requested_budget(arguments, default=default)
    params = route_params(arguments, Aggregate, without=("limit", "max_bytes"))
    if is_grouped:
        steps = {"next": _next_steps({"next_cursor": ""}, arguments)}
        params += [
            ("limit", str(arguments.get("limit", limits.GROUPS_MAX))),
            *limit_params(budget, structured={**steps, "data": 0}, text=steps),
        ]
    else:
        params += query_params(arguments, "limit")
    body = call.get_json(f"{stream_path(arguments['stream'])}/aggregate", params)
    result = _build(body, arguments)
    if not budget.allows(result):
        result = _shorter(body, arguments, budget)
    return result


def _shorter(body: dict[str, Any], arguments: Arguments, budget: Budget) -> Result:
    """Return the first groups that fit, at least one, or the value without the next steps.

    Raises AdapterError if neither fits.
    """
    groups = [cut_group(group, budget.text // _KEY_PART) for group in body.get("groups") or []]

    def render_groups(others: int) -> Result:
        count = others + 1
        left_out = {"groups_left_out": len(groups) - count, "next_cursor": None}
        shorter = {**body, "groups": groups[:count], **(left_out if count < len(groups) else {})}
        return _build(shorter, arguments)

    result = largest_that_fits(len(groups) - 1, render=render_groups, fits=budget.allows)
    if result is None:
        lean = _build({**body, "groups": groups} if groups else body, arguments, lean=True)
        result = lean if budget.allows(lean) else None
    if result is None:
        raise AdapterError(
            "result_too_large",
            "The aggregate is larger than the result may be.",
            next_step="Call aggregate again with a larger max_bytes, or with a filter.",
        )
    return result


def _build(body: dict[str, Any], arguments: Arguments, *, lean: bool = False) -> Result:
    """Return both channels; if `lean`, without next steps and with the names of warnings in text."""
    steps = {} if lean else _next_steps(body, arguments)
    structured = {"next": steps, "data": body, "origin": origin_mark(body)}
    return Result(structured, render(structured, lean=lean))


def _next_steps(body: dict[str, Any], arguments: Arguments) -> dict[str, dict[str, Any]]:
    """Return the calls for more groups and for the records that were counted."""
    cursor, steps = body.get("next_cursor"), {}
    if cursor is not None:
        steps["page"] = next_call("aggregate", arguments, cursor=cursor)
    elif "groups_left_out" in body:
        # The same groups again, with the cursor that follows them.
        steps["page"] = next_call("aggregate", arguments, limit=len(body["groups"]))
    given = {name: arguments[name] for name in _RECORD_ARGUMENTS if name in arguments}
    return {**steps, "records": next_call("query_records", given)}


TOOL = Tool("aggregate", "Aggregate records", DESCRIPTION, ARGUMENTS, run)
