"""query_records: return pages of records or changes of one stream, filtered and sorted."""

import shlex
from typing import Any

from evidence import record_ids
from mcp_adapter import budget as budgets
from mcp_adapter import labels, rest_params
from mcp_adapter.arguments import Arguments, choice, string
from mcp_adapter.text.query_records import render
from mcp_adapter.tool import Call, Result, Tool

DESCRIPTION = (
    "List records of one stream, newest first (read-only; GET /v1/streams/{stream}/records). "
    "schema(stream) says what can be filtered, sorted, counted, expanded. Page with cursor, "
    "narrow with fields, filter or view; to count or group use aggregate, to find words use "
    "search. Up to 25 records a page unless limit says otherwise; a page may end early. "
    'changes_since: "beginning", then the next_changes_since of the last page, never a date. '
    "Structured output is visible too."
)
ARGUMENTS = (
    rest_params.STREAM,
    rest_params.CONNECTION_ID,
    rest_params.FILTER,
    rest_params.AFTER,
    rest_params.BEFORE,
    rest_params.FIELDS,
    string("view", "A named view, instead of fields"),
    string("sort", "Field, - for descending"),
    choice("order", ("asc", "desc")),
    choice("count", ("none", "estimated", "exact")),
    rest_params.limit_argument("Records, 1 to 100"),
    rest_params.CURSOR,
    string("changes_since", '"beginning" or a next_changes_since'),
    rest_params.EXPAND,
    rest_params.EXPAND_LIMIT,
    budgets.MAX_BYTES,
)
_FORWARDED = (
    "connection_id",
    "filter",
    "after",
    "before",
    "fields",
    "view",
    "sort",
    "order",
    "count",
    "cursor",
    "changes_since",
    "expand",
    "expand_limit",
)
_DEFAULT_RECORDS = 25


def run(call: Call) -> Result:
    """Read one page, and return each record with a handle that opens it."""
    arguments = call.arguments
    stream = arguments["stream"]
    connection_id = arguments.get("connection_id")
    rest_params.require_expandable(call, stream=stream, connection_id=connection_id)
    budget = budgets.requested_budget(arguments, default=budgets.PAGE)
    steps = _next_steps({"has_more": True}, arguments, stream=stream)
    params = [
        *rest_params.query_params(arguments, *_FORWARDED),
        *budgets.limit_params(
            budget,
            structured={"next": steps, "handles": [], "data": 0},
            text={"has_more": False, "records": [], **steps},
        ),
        ("limit", str(arguments.get("limit", _DEFAULT_RECORDS))),
    ]
    body = call.get_json(f"{rest_params.stream_path(stream)}/records", params)

    def build(page: dict[str, Any]) -> Result:
        structured = {
            "next": _next_steps(page, arguments, stream=stream),
            "handles": [_handle(record, stream) for record in page["data"]],
            "origin": labels.page_origin(page["data"]),
            "data": page,
        }
        return Result(structured, render(structured, max_bytes=budget.text))

    return budgets.fit_page(body, build=build, budget=budget)


def _handle(record: dict[str, Any], stream: str) -> str:
    ref = record_ids.RecordRef(
        record.get("connection_id"),
        str(record.get("stream", stream)),
        str(record.get("id") or record.get("record_key")),
    )
    return record_ids.format_id(ref)


def _next_steps(page: dict[str, Any], arguments: Arguments, *, stream: str) -> dict[str, str]:
    steps = {"read": "fetch(id), or read_record_field(id, field_path) for a field named in cut"}
    if page.get("has_more"):
        steps["page"] = "query_records with the same arguments and cursor=next_cursor"
        steps["export"] = _export_command(arguments, stream=stream)
    return steps


def _export_command(arguments: Arguments, *, stream: str) -> str:
    """Return the shell command that exports all records of the query under the same grant."""
    words = ["pdpp", "export", stream]
    if "connection_id" in arguments:
        words += ["--connection", arguments["connection_id"]]
    if "view" in arguments:
        words += ["--view", arguments["view"]]
    if "fields" in arguments:
        words += ["--fields", ",".join(arguments["fields"])]
    for name, value in rest_params.query_params(arguments, "filter"):
        words += ["--param", f"{name}={value}"]
    return shlex.join(words)


TOOL = Tool("query_records", "Query records", DESCRIPTION, ARGUMENTS, run)
