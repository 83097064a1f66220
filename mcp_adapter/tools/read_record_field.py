"""read_record_field: a bounded window of one field, with the arguments that read on."""

from typing import Any

from evidence import limits
from mcp_adapter import (
    arguments,
    field_windows,
    ids,
    labels,
    record_refs,
    resources,
)
from mcp_adapter import (
    budget as budgets,
)
from mcp_adapter.budget import longest
from mcp_adapter.errors import AdapterError
from mcp_adapter.json_text import dumps
from mcp_adapter.tool import Call, Result, Tool

_LEFT_OUT = frozenset({"origin"})


def render(structured: dict[str, Any]) -> str:
    """Text, offsets, what is missing, and the ready-made arguments that read on."""
    return dumps({name: value for name, value in structured.items() if name not in _LEFT_OUT})


DESCRIPTION = (
    "Read a window of one field of one record, with offsets and ready-made next and previous "
    "arguments (read-only; GET /v1/streams/{stream}/records/{id}/field-window). Name the record by "
    "id or pdpp:// URI, or by stream, record_id and connection_id. Start at offset_chars or cursor, "
    "or around the nth occurrence of q. field_path is a field name, or a JSON Pointer into a "
    "structured field. Offsets count characters."
)
_WINDOW = limits.WINDOW_MAX_CHARS
_CONTEXT = limits.WINDOW_CONTEXT_MAX_CHARS
ARGUMENTS = (
    arguments.text("id", "Record id, or pdpp://record, field-window or blob URI"),
    arguments.text("field_path", "Required, but for field-window and blob URIs"),
    arguments.text("connection_id", "With stream and record_id", longest=200),
    arguments.text("stream"),
    arguments.text("record_id"),
    arguments.text("q", "Text to find in the field"),
    arguments.whole("occurrence", "Which match of q, from 1", least=1, most=1_000_000),
    arguments.whole("before_chars", f"0 to {_CONTEXT}, with q", least=0, most=_CONTEXT),
    arguments.whole("after_chars", f"0 to {_CONTEXT}, with q", least=0, most=_CONTEXT),
    arguments.whole("offset_chars", "Where to start, from 0", least=0, most=10**12 - 1),
    arguments.text("cursor", "next_cursor or previous_cursor"),
    arguments.whole("limit_chars", f"1 to {_WINDOW}, default 4096", least=1, most=_WINDOW),
    budgets.MAX_BYTES,
)


def run(call: Call) -> Result:
    """Read the window; where it bursts the budget, show a shorter one at the same place."""
    uri = record_refs.uri_of(call.given)
    budget = budgets.chosen(call.given, default=budgets.READ)
    if uri.kind == "blob":
        return resources.described(call, uri, budget=budget)
    given = {**uri.window, **call.given} if not _selects(call.given) else call.given
    path = _path(given, uri)
    record = uri.record
    assert record is not None  # noqa: S101 - every kind but blob has one
    found = field_windows.reader(call, record, path=path)(field_windows.selector(given))
    if found.blob_id is not None:
        uri = ids.Uri("blob", None, found.blob_id, found.ref.connection_id, {})
        return resources.described(call, uri, budget=budget)
    result = _result(found, given)
    if budget.holds(result):
        return result
    shorter = longest(
        len(found.window["text"]) - 1,
        draw=lambda chars: _result(found.narrowed(max(chars, 1)), given),
        fits=budget.holds,
    )
    if shorter is None or not shorter.structured["window"]["text"]:
        raise _too_large()
    return shorter


def _selects(given: arguments.Given) -> bool:
    return any(name in given for name in ("cursor", "offset_chars", "q"))


def _path(given: arguments.Given, uri: ids.Uri) -> str:
    path = given.get("field_path", uri.window.get("field_path"))
    if path is None:
        raise AdapterError(
            "missing_argument",
            "read_record_field needs field_path: the field to read.",
            param="field_path",
            next_step="Call schema(stream) for the field names, then again with field_path.",
        )
    return str(path)


def _result(found: field_windows.Found, given: arguments.Given) -> Result:
    window = dict(found.window)
    onward, back = window.get("next_offset_chars"), window.get("previous_offset_chars")
    window["next_cursor"] = None if onward is None else str(onward)
    window["previous_cursor"] = None if back is None else str(back)
    structured: dict[str, Any] = {
        "record": _record(found.ref),
        "field": {
            "path": found.path,
            "type": found.kind,
            "text_like": found.kind == "string",
            **found.about,
        },
        "window": window,
    }
    if onward is not None:
        structured["next"] = _continuation(found, given, offset=onward)
    if back is not None:
        chars = window["start_chars"] - back
        structured["previous"] = _continuation(found, given, offset=back, chars=chars)
    structured["origin"] = labels.origin({"origin": found.origin})
    return Result(structured, render(structured))


def _record(ref: ids.RecordRef) -> dict[str, Any]:
    return {
        "id": ids.handle(ref),
        "connection_id": ref.connection_id,
        "stream": ref.stream,
        "record_id": ref.record_id,
    }


def _continuation(
    found: field_windows.Found, given: arguments.Given, *, offset: int, chars: int | None = None
) -> dict[str, Any]:
    args = {"id": ids.handle(found.ref), "field_path": found.path, "offset_chars": offset}
    limit = min(chars or _WINDOW, given.get("limit_chars", chars or 0))
    if limit:
        args["limit_chars"] = limit
    if "max_bytes" in given:
        args["max_bytes"] = given["max_bytes"]
    return {"tool": "read_record_field", "args": args}


def _too_large() -> AdapterError:
    return AdapterError(
        "result_too_large",
        "Not even a few characters fit into the result.",
        next_step="Call again with a larger max_bytes.",
    )


TOOL = Tool("read_record_field", "Read a field", DESCRIPTION, ARGUMENTS, run)
