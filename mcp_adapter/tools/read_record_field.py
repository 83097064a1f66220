"""read_record_field: return a bounded window of one field, with the arguments that continue it."""

from typing import Any

from evidence import limits, record_ids
from evidence.item_lines import origin_mark
from evidence.page_cutter import dumps, largest_that_fits
from evidence.parameters import ReadFieldWindow
from mcp_adapter import resources
from mcp_adapter.resources import FieldWindow, read_window
from mcp_adapter.tool import (
    READ_BUDGET,
    AdapterError,
    Arguments,
    Call,
    Result,
    Tool,
    max_bytes_argument,
    own_text,
    parse_target,
    requested_budget,
    tool_arguments,
)

DESCRIPTION = (
    "Read a window of one field of a record, with next and previous calls "
    "(read-only; GET /v1/streams/{stream}/records/{id}/field-window). Name the record by id, "
    "or by stream, record_id and connection_id. Start at offset_chars or cursor, or around "
    "the nth occurrence of q; narrow with limit_chars. field_path is a field of "
    "schema(stream), or a JSON Pointer into it. May be shown as structured output."
)
_MAX_CHARS = limits.WINDOW_MAX_CHARS
ARGUMENTS = tool_arguments(
    own_text("id", "Record id, or pdpp://record, field-window or blob URI"),
    own_text("field_path", "Required, but for field-window and blob URIs"),
    own_text("connection_id", "With stream and record_id"),
    own_text("stream"),
    own_text("record_id"),
    "q",
    "occurrence",
    "before_chars",
    "after_chars",
    "offset_chars",
    own_text("cursor", "next_cursor or previous_cursor"),
    "limit_chars",
    max_bytes_argument(READ_BUDGET),
    route=ReadFieldWindow,
)


def run(call: Call) -> Result:
    """Read the window, and shorten it if it exceeds the budget."""
    arguments = call.arguments
    uri = parse_target(arguments)
    budget = requested_budget(arguments, default=READ_BUDGET)
    if uri.kind == "blob":
        return resources.blob_result(call, uri, budget=budget)
    if not any(name in arguments for name in ("cursor", "offset_chars", "q")):
        arguments = {**uri.window, **arguments}
    path = _field_path(arguments, uri)
    record = uri.record
    assert record is not None  # noqa: S101 - every kind but blob names a record
    window = read_window(call, record, path=path, arguments=arguments)
    if window.blob_id is not None:
        uri = record_ids.ParsedUri("blob", None, window.blob_id, window.ref.connection_id, {})
        return resources.blob_result(call, uri, budget=budget)
    result = _result(window, arguments)
    if budget.allows(result):
        return result
    shorter = largest_that_fits(
        len(window.window["text"]) - 1,
        render=lambda chars: _result(window.narrowed(max(chars, 1)), arguments),
        fits=budget.allows,
    )
    if shorter is None or not shorter.structured["window"]["text"]:
        raise AdapterError(
            "result_too_large",
            "Not even a few characters fit into the result.",
            next_step="Call again with a larger max_bytes.",
        )
    return shorter


def _field_path(arguments: Arguments, uri: record_ids.ParsedUri) -> str:
    path = arguments.get("field_path", uri.window.get("field_path"))
    if path is None:
        raise AdapterError(
            "missing_argument",
            "read_record_field needs field_path: the field to read.",
            param="field_path",
            next_step="Call schema(stream) for the field names, then again with field_path.",
        )
    return str(path)


def _result(field: FieldWindow, arguments: Arguments) -> Result:
    window = dict(field.window)
    after, before = window.get("next_offset_chars"), window.get("previous_offset_chars")
    window["next_cursor"] = None if after is None else str(after)
    window["previous_cursor"] = None if before is None else str(before)
    text: dict[str, Any] = {
        "record": {
            "id": record_ids.format_id(field.ref),
            "connection_id": field.ref.connection_id,
            "stream": field.ref.stream,
            "record_id": field.ref.record_id,
        },
        "field": {
            "path": field.path,
            "type": field.field_type,
            "text_like": field.field_type == "string",
            **field.metadata,
        },
        "window": window,
    }
    if after is not None:
        text["next"] = _continuation(field, arguments, offset=after)
    if before is not None:
        chars = window["start_chars"] - before
        text["previous"] = _continuation(field, arguments, offset=before, chars=chars)
    origin = origin_mark({"origin": field.origin})
    return Result({**text, "origin": origin}, dumps(text))


def _continuation(
    field: FieldWindow, arguments: Arguments, *, offset: int, chars: int | None = None
) -> dict[str, Any]:
    next_arguments = {
        "id": record_ids.format_id(field.ref),
        "field_path": field.path,
        "offset_chars": offset,
    }
    if limit := min(chars or _MAX_CHARS, arguments.get("limit_chars", chars or 0)):
        next_arguments["limit_chars"] = limit
    if "max_bytes" in arguments:
        next_arguments["max_bytes"] = arguments["max_bytes"]
    return {"tool": "read_record_field", "args": next_arguments}


TOOL = Tool("read_record_field", "Read a field", DESCRIPTION, ARGUMENTS, run)
