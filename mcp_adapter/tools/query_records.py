"""query_records: return pages of records or changes of one stream, filtered and sorted."""

import shlex
from typing import Any

from evidence.item_lines import (
    SOURCES_BYTES,
    count_by_source,
    handle,
    next_call,
    page_items,
    page_origin,
    record_line,
    target_arguments,
)
from evidence.page_cutter import dumps, is_window_descriptor
from evidence.parameters import ListRecords
from mcp_adapter.tool import (
    PAGE_BUDGET,
    STREAM,
    Arguments,
    Call,
    Result,
    Tool,
    limit_params,
    max_bytes_argument,
    query_params,
    read_page,
    requested_budget,
    require_expandable,
    route_params,
    stream_path,
    tool_arguments,
)

DESCRIPTION = (
    "List records of one stream, newest first (read-only; GET /v1/streams/{stream}/records). "
    "schema(stream) says what can be filtered, sorted, counted, expanded. Records are whole; "
    "only texts over 500 characters are cut, named in cut. A page ends at limit (default 25) "
    "or max_bytes; next.page goes on. Narrow with fields, filter or view; to count or group "
    'use aggregate, to find words search. changes_since: "beginning", then '
    "next_changes_since, never a date. May be shown as structured output."
)
ARGUMENTS = tool_arguments(
    STREAM,
    "connection_id",
    "filter",
    "after",
    "before",
    "fields",
    "view",
    "sort",
    "order",
    "count",
    "limit",
    "cursor",
    "changes_since",
    "expand",
    "expand_limit",
    max_bytes_argument(PAGE_BUDGET),
    route=ListRecords,
)
_DEFAULT_RECORDS = 25
_MAX_EXPORT_CHARS = 800
_READ = next_call("read_record_field", {"id": "x" * 50, "field_path": "x" * 10})


def run(call: Call) -> Result:
    """Read one page, and return each record with a handle that opens it."""
    arguments = call.arguments
    stream = arguments["stream"]
    connection_id = arguments.get("connection_id")
    require_expandable(call, stream=stream, connection_id=connection_id)
    budget = requested_budget(arguments, default=PAGE_BUDGET)
    steps = {"page": next_call("query_records", arguments, cursor=""), "read": _READ}
    export = _export(arguments, stream=stream)
    overhead: dict[str, Any] = {"next": steps, **export}
    if connection_id is None:
        overhead["sources"] = "x" * SOURCES_BYTES
    params = [
        *route_params(arguments, ListRecords, without=("limit", "max_bytes")),
        ("form", "compact"),
        *limit_params(
            budget,
            structured={**overhead, "handles": [], "data": 0},
            text={"has_more": False, "records": [], **overhead},
        ),
        ("limit", str(arguments.get("limit", _DEFAULT_RECORDS))),
    ]

    def build(page: dict[str, Any]) -> Result:
        result = _build(page, arguments, stream=stream, export=export)
        return result if budget.allows(result) else _build(page, arguments, stream=stream)

    path = f"{stream_path(stream)}/records"
    return read_page(lambda params: call.get_json(path, params), params, build=build, budget=budget)


def _build(
    page: dict[str, Any],
    arguments: Arguments,
    *,
    stream: str,
    export: dict[str, str] | None = None,
) -> Result:
    """Return both channels of a page; without `export`, only what is needed to go on."""
    records = [{"stream": stream, **record} for record in page_items(page)]
    lines = [record_line(record) for record in records]
    more = {} if export is None or not page.get("has_more") else export
    following = {**more, "next": _next_steps(page, records, arguments, lean=export is None)}
    structured = {
        **following,
        "handles": [handle(record) for record in records],
        "origin": page_origin(records),
        "data": page,
    }
    sources = {} if export is None else count_by_source(records, unit="records", least=2)
    return Result(structured, dumps({**_page(page), "records": lines, **sources, **following}))


def _page(envelope: dict[str, Any]) -> dict[str, Any]:
    page: dict[str, Any] = {"has_more": envelope.get("has_more", False)}
    for name in ("next_cursor", "next_changes_since"):
        if envelope.get(name):
            page[name] = envelope[name]
    meta = envelope.get("meta", {})
    count = meta.get("count")
    if isinstance(count, int) or (isinstance(count, dict) and count.get("kind", "none") != "none"):
        page["count"] = count
    if meta.get("warnings"):
        page["warnings"] = meta["warnings"]
    return page | {name: meta[name] for name in ("ended_by", "left") if name in meta}


def _next_steps(
    page: dict[str, Any], records: list[dict[str, Any]], arguments: Arguments, *, lean: bool
) -> dict[str, Any]:
    """Return the calls for the next page, or the next changes, and for the first cut field."""
    steps: dict[str, Any] = {}
    if bookmark := page.get("next_changes_since"):
        name = "page" if page.get("has_more") else "changes"
        steps[name] = next_call("query_records", arguments, changes_since=bookmark)
    elif cursor := page.get("next_cursor"):
        steps["page"] = next_call("query_records", arguments, cursor=cursor)
    if not lean and (read := next((step for step in map(_first_cut, records) if step), None)):
        steps["read"] = read
    return steps


def _first_cut(record: dict[str, Any]) -> dict[str, Any] | None:
    """Return the call that reads the first field that is not shown whole, if any."""
    for name, value in (record.get("data") or {}).items():
        if is_window_descriptor(value):
            return next_call("read_record_field", target_arguments(record), field_path=name)
    if omitted := record.get("omitted_fields"):
        return next_call("fetch", target_arguments(record), fields=omitted)
    return None


def _export(arguments: Arguments, *, stream: str) -> dict[str, str]:
    """Return the shell command that exports all records of the query, with the first page only."""
    if "cursor" in arguments or "changes_since" in arguments:
        return {}
    words = ["pdpp", "export", stream]
    if "connection_id" in arguments:
        words += ["--connection", arguments["connection_id"]]
    if "view" in arguments:
        words += ["--view", arguments["view"]]
    if "fields" in arguments:
        words += ["--fields", ",".join(arguments["fields"])]
    for name, value in query_params(arguments, "filter", "after", "before"):
        words += ["--param", f"{name}={value}"]
    command = shlex.join(words)
    return {"export": command} if len(command) <= _MAX_EXPORT_CHARS else {}


TOOL = Tool("query_records", "Query records", DESCRIPTION, ARGUMENTS, run)
