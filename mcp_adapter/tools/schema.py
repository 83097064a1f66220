"""schema: what this grant covers, and what can be asked of one stream."""

from typing import Any

from mcp_adapter import arguments, rest_params
from mcp_adapter import budget as budgets
from mcp_adapter.errors import AdapterError
from mcp_adapter.json_text import wire_size
from mcp_adapter.schema_pages import Entry, entries, page
from mcp_adapter.text.schema import LEGEND, render
from mcp_adapter.tool import Call, Result, Tool

DESCRIPTION = (
    "Show what this grant covers (read-only; GET /v1/schema). Without arguments: every stream by "
    "connector, and the connections. schema(stream) gives fields, filters, sorts, relations, "
    "aggregations and connection ids for the other tools, with a legend; add connection_id to "
    'narrow. detail "full" adds the JSON Schema, only together with stream. Page with cursor. Call '
    "this first."
)
ARGUMENTS = (
    arguments.text("stream", "Stream name"),
    arguments.text("connection_id", "Only this connection", longest=200),
    arguments.choice("detail", ("compact", "full")),
    rest_params.CURSOR,
)
_PREFIX = "schema:"


def run(call: Call) -> Result:
    """Read the schema and show as much of it as fits, from the cursor on."""
    given = call.given
    if given.get("detail") == "full" and "stream" not in given:
        raise AdapterError(
            "schema_detail_needs_stream",
            "detail 'full' is given for one stream at a time.",
            param="detail",
            next_step="Call schema() for the stream names, then "
            "schema(stream, connection_id, detail='full').",
        )
    body = call.get("/v1/schema", _params(given))
    return _longest(body, entries(body), start=_start(given), full=given.get("detail") == "full")


def _params(given: arguments.Given) -> list[tuple[str, str]]:
    if "stream" not in given:
        return [("view", "index"), *rest_params.params(given, "connection_id")]
    scoped = [
        ("stream", rest_params.stream_name(given)),
        *rest_params.params(given, "connection_id"),
    ]
    form = ("detail", "full") if given.get("detail") == "full" else ("view", "compact")
    return [form, *scoped]


def _start(given: arguments.Given) -> int:
    number = given.get("cursor", f"{_PREFIX}0").removeprefix(_PREFIX)
    if not number.isdecimal() or len(number) > 9:
        raise AdapterError(
            "invalid_cursor",
            "The cursor is not one that schema gave.",
            param="cursor",
            next_step="Call schema again without cursor.",
        )
    return int(number)


def _longest(body: dict[str, Any], found: list[Entry], *, start: int, full: bool) -> Result:
    """The longest run of entries that fits both channels, at least one."""
    budget = _budget(body, first=start == 0)
    least, most = min(1, len(found) - start), len(found) - start
    if budget.holds(result := _build(body, found, start=start, count=most, full=full)):
        return result
    while least < most:
        middle = (least + most + 1) // 2
        if budget.holds(_build(body, found, start=start, count=middle, full=full)):
            least = middle
        else:
            most = middle - 1
    return _build(body, found, start=start, count=least, full=full)


def _budget(body: dict[str, Any], *, first: bool) -> budgets.Budget:
    """An index has to name every stream, and its names come on top of the budget."""
    names = [
        name
        for connector in body["connectors"]
        if "stream_names" in connector
        for name in (str(connector.get("connector_key")), *connector["stream_names"])
    ]
    extra = sum(wire_size(name) for name in names) if first else 0
    return budgets.Budget(budgets.PAGE.structured + extra, budgets.PAGE.text + extra)


def _build(
    body: dict[str, Any], found: list[Entry], *, start: int, count: int, full: bool
) -> Result:
    end = start + max(count, 0)
    document = page(body, found[start:end], first=start == 0)
    document.setdefault("detail", "full" if full else "compact")
    if document["detail"] == "compact":
        document["field_capability_legend"] = LEGEND
    if end < len(found):
        document["next_cursor"] = f"{_PREFIX}{end}"
    structured = {"next": _next(document), "data": document}
    return Result(structured, render(structured))


def _next(document: dict[str, Any]) -> dict[str, str]:
    steps = {"next": _STEPS[document["detail"]]}
    if not document["connectors"]:
        steps["next"] = "Nothing of that name here. Call schema() for every stream."
    if "next_cursor" in document:
        steps["page"] = "schema with the same arguments and cursor=next_cursor"
    return steps


_STEPS = {
    "index": "Choose a stream and call schema(stream) for its fields; search(q) finds words in "
    "all of them.",
    "compact": "query_records(stream, connection_id, fields, filter, sort, expand) lists records; "
    "aggregate counts them (metric=count always works). Any field shown can stand in fields.",
    "full": "query_records(stream, connection_id, fields, filter) lists records.",
}

TOOL = Tool("schema", "Schema", DESCRIPTION, ARGUMENTS, run)
