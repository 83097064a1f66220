"""query_records: pages of one stream's records, filtered, sorted, or as changes since a bookmark."""

import shlex
from typing import Any

from mcp_adapter import (
    arguments,
    ids,
    labels,
    rest_params,
)
from mcp_adapter import (
    budget as budgets,
)
from mcp_adapter import (
    budget as pages,
)
from mcp_adapter.text.query_records import render
from mcp_adapter.tool import Call, Result, Tool

DESCRIPTION = (
    "List records of one stream, newest first (read-only; GET /v1/streams/{stream}/records). "
    "schema(stream) says what can be filtered, sorted, counted, expanded. Page with cursor, narrow "
    "with fields, filter or view; to count or group use aggregate, to find words use search. Up to "
    "25 records a page unless limit says otherwise; a page ends early rather than burst its budget. "
    'changes_since: "beginning", then the next_changes_since of the last page, never a date. The '
    "structured output may be shown to you as well."
)
ARGUMENTS = (
    rest_params.STREAM,
    rest_params.CONNECTION_ID,
    rest_params.FILTER,
    rest_params.FIELDS,
    arguments.text("view", "A named view, instead of fields"),
    arguments.text("sort", "Field, - before it for descending"),
    arguments.choice("order", ("asc", "desc")),
    arguments.choice("count", ("none", "estimated", "exact")),
    rest_params.limit("Records, 1 to 100"),
    rest_params.CURSOR,
    arguments.text("changes_since", '"beginning" or a next_changes_since'),
    rest_params.EXPAND,
    rest_params.EXPAND_LIMIT,
    budgets.MAX_BYTES,
)
_FORWARDED = (
    "connection_id",
    "filter",
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
    """Read one page and show each record with a handle that opens it."""
    given = call.given
    stream = rest_params.stream_name(given)
    rest_params.gate(call, stream=stream, connection_id=given.get("connection_id"))
    budget = budgets.chosen(given, default=budgets.PAGE)
    steps = _next({"has_more": True}, given, stream=stream)
    params = [
        *rest_params.params(given, *_FORWARDED),
        *pages.bounds(
            budget,
            structured={"next": steps, "handles": [], "data": 0},
            text={"has_more": False, "records": [], **steps},
        ),
        ("limit", str(given.get("limit", _DEFAULT_RECORDS))),
    ]
    body = call.get(f"{rest_params.stream_path(stream)}/records", params)
    return pages.shown(
        body,
        build=lambda page: _build(page, given, stream=stream, text_bytes=budget.text),
        budget=budget,
    )


def _build(body: dict[str, Any], given: arguments.Given, *, stream: str, text_bytes: int) -> Result:
    structured = {
        "next": _next(body, given, stream=stream),
        "handles": [_handle(record, stream) for record in body["data"]],
        "origin": labels.origins(body["data"]),
        "data": body,
    }
    return Result(structured, render(structured, most=text_bytes))


def _handle(record: dict[str, Any], stream: str) -> str:
    ref = ids.RecordRef(
        record.get("connection_id"), str(record.get("stream", stream)), str(record["id"])
    )
    return ids.handle(ref)


def _next(body: dict[str, Any], given: arguments.Given, *, stream: str) -> dict[str, str]:
    steps = {"read": "fetch(id), or read_record_field(id, field_path) for a field named in cut"}
    if body.get("has_more"):
        steps["page"] = "query_records with the same arguments and cursor=next_cursor"
        steps["export"] = _export_line(given, stream=stream)
    return steps


def _export_line(given: arguments.Given, *, stream: str) -> str:
    """The command with which a person takes all of it, on the same grant."""
    words = ["pdpp", "export", stream]
    if "connection_id" in given:
        words += ["--connection", given["connection_id"]]
    if "fields" in given:
        words += ["--fields", ",".join(given["fields"])]
    for name, value in rest_params.params(given, "filter"):
        words += ["--param", f"{name}={value}"]
    return shlex.join(words)


TOOL = Tool("query_records", "Query records", DESCRIPTION, ARGUMENTS, run)
