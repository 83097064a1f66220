"""fetch: return one record as a document with id, title, text, url and metadata."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evidence import record_ids
from evidence.item_lines import (
    describe_read,
    is_whole,
    item_title,
    origin_mark,
    record_line,
    record_url,
)
from evidence.page_cutter import (
    dumps,
    grapheme_floor,
    is_window_descriptor,
    largest_that_fits,
    shrink_record,
)
from evidence.parameters import GetRecord
from mcp_adapter.tool import (
    READ_BUDGET,
    AdapterError,
    Budget,
    Call,
    Result,
    Tool,
    connection_params,
    limit_param,
    max_bytes_argument,
    own_text,
    parse_record,
    query_params,
    record_path,
    referenced_blob_id,
    requested_budget,
    require_expandable,
    resolve_record,
    tool_arguments,
)

# Everything that str.splitlines() or a terminal takes for the end of a line.
_LINE_BREAK = re.compile("[\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f\u2028\u2029]")


def record_lines(data: Mapping[str, Any], money: Mapping[str, str]) -> str:
    """Return one line `field: value` for each field, with declared money as a decimal after it.

    A text with a line break is quoted as JSON, so a line always begins with a field's name.
    """
    return "\n".join(
        f"{_text(name)}: {_text(value)}" + (f" ({money[name]})" if name in money else "")
        for name, value in data.items()
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return dumps(value)
    if not _LINE_BREAK.search(value):
        return value
    return _LINE_BREAK.sub(lambda match: f"\\u{ord(match.group()):04x}", dumps(value))


_MAIN_TEXT = ("text", "content", "body", "body_text", "message", "description", "notes", "summary")
_MIN_MAIN_TEXT_CHARS = 200
# Encoded bytes: letters of both cases and digits, without a space or a full stop.
_BASE64 = re.compile(r"(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9])[A-Za-z0-9+/_\-\r\n]+={0,2}\s*", re.DOTALL)
_MIN_BASE64_CHARS, _MIN_BASE64_PREVIEW_CHARS = 200, 40
_IDENTITY = ("connection_id", "connector_key", "display_name", "emitted_at", "version")


@dataclass(frozen=True, slots=True)
class TextPassage:
    """The beginning of a text field, and the total length of the field in code points."""

    field: str
    text: str
    total_chars: int


@dataclass(frozen=True, slots=True)
class FetchedRecord:
    """A record as REST returned it, with the ids and the URL that the document shows."""

    requested_id: str
    handle: str
    url: str
    body: dict[str, Any]


def main_text_field(data: dict[str, Any], *, declared: str | None = None) -> str | None:
    """Return the field to show as the text: the declared one, one with a usual name, or the longest."""
    lengths = {name: _text_length(value) for name, value in data.items()}
    for name in (declared or "", *_MAIN_TEXT):
        if lengths.get(name):
            return name
    longest = max(lengths, key=lengths.__getitem__, default=None)
    return longest if longest is not None and lengths[longest] >= _MIN_MAIN_TEXT_CHARS else None


def _main_field(body: Mapping[str, Any]) -> str | None:
    """Return the field to show as the text, or None for lines, as of a payment with a short memo."""
    declared = body.get("text_field")
    if declared is None and "text_field" in body:
        return None
    return main_text_field(body.get("data") or {}, declared=declared)


def _text_length(value: Any) -> int:
    is_preview = is_window_descriptor(value)
    text = value.get("preview", "") if is_preview else value
    min_chars = _MIN_BASE64_PREVIEW_CHARS if is_preview else _MIN_BASE64_CHARS
    if not isinstance(text, str) or (len(text) >= min_chars and _BASE64.fullmatch(text)):
        return 0
    return len(text) if text is value else int(value.get("total_chars") or 0)


def text_passage(data: dict[str, Any], field: str) -> TextPassage:
    """Return the text of a field, or the preview in its window descriptor."""
    value = data[field]
    if is_window_descriptor(value):
        return TextPassage(field, value.get("preview", ""), int(value["total_chars"]))
    return TextPassage(field, value, len(value))


def build_document(record: FetchedRecord, passage: TextPassage | None) -> dict[str, Any]:
    """Return the document: its main text, and its other fields whole or named in `cut`."""
    body = record.body
    data = body.get("data") or {}
    metadata = _identity(record)
    if passage is not None:
        metadata |= _passage_extent(record, passage)
        data = {name: value for name, value in data.items() if name != passage.field}
    line = record_line({**body, "data": data}, with_key=True)
    fields: dict[str, Any] = {
        name: line[name] for name in ("cut", "cut_more", "omitted_fields") if name in line
    }
    shown, money = line.get("data", {}), line.get("money", {})
    text = passage.text if passage else record_lines(shown, money)
    if passage and shown:
        metadata |= {"fields": shown, **({"money": money} if money else {})}
    metadata |= {"complete": metadata.get("complete", True) and is_whole(line), **fields}
    if "cut" in fields:
        metadata.setdefault("next", _read_field(record.handle, field_path=fields["cut"][0]))
    if "omitted_fields" in fields:
        metadata.setdefault("next", _fetch_omitted(record))
        metadata["fields_left_out"] = {"read": _fetch_omitted(record), "names": _all_fields(record)}
    metadata |= _blob(body)
    if "expanded" in line:
        metadata["expanded"] = line["expanded"]
    return {
        "id": record.requested_id,
        "title": item_title(body),
        "text": text,
        "url": record.url,
        "metadata": metadata,
    }


def _blob(body: dict[str, Any]) -> dict[str, Any]:
    """Return how to read the binary content of the record, if it has any."""
    reference = body.get("data", {}).get("blob_ref")
    blob_id = referenced_blob_id(reference)
    if blob_id is None:
        return {}
    uri = record_ids.blob_uri(blob_id, connection_id=body.get("connection_id"))
    return {"blob": {"media_type": reference.get("media_type"), "read": _read_field(uri)}}


def _identity(record: FetchedRecord) -> dict[str, Any]:
    body = record.body
    identity = {name: body[name] for name in _IDENTITY if body.get(name) is not None}
    if record.handle != record.requested_id:
        identity["handle"] = record.handle
    return {"stream": body.get("stream"), **identity, "origin": origin_mark(body)}


def _passage_extent(record: FetchedRecord, passage: TextPassage) -> dict[str, Any]:
    end, total = len(passage.text), passage.total_chars
    extent = {"text_field": passage.field, "end_chars": end, "total_chars": total}
    if end >= total:
        return {**extent, "complete": True}
    next_call = _read_field(record.handle, field_path=passage.field, offset_chars=end)
    return {**extent, "complete": False, "next": next_call}


def _fetch_omitted(record: FetchedRecord) -> dict[str, Any]:
    """Return the call that fetches the fields that REST left out, if REST names them."""
    names = record.body.get("omitted_fields", [])
    return {"tool": "fetch", "args": {"id": record.handle, "fields": names}}


def _all_fields(record: FetchedRecord) -> dict[str, Any]:
    """Return the call that names all fields of the record's stream."""
    arguments = {"stream": record.body.get("stream")}
    if record.body.get("connection_id"):
        arguments["connection_id"] = record.body["connection_id"]
    return {"tool": "schema", "args": arguments}


def _read_field(record_id: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": "read_record_field", "args": {"id": record_id, **arguments}}


DESCRIPTION = (
    "Open one record as a document with id, title, text, url, metadata (read-only; GET "
    "/v1/streams/{stream}/records/{id}). Pass an id exactly as shown. A long text starts at "
    "its beginning and metadata.next reads on. Narrow with fields (see schema); a record "
    "without long text gives one line per field. May be shown as structured output."
)
ARGUMENTS = tool_arguments(
    own_text("id", "connection_id/stream:record_id", required=True),
    "connection_id",
    "fields",
    "expand",
    "expand_limit",
    max_bytes_argument(READ_BUDGET),
    route=GetRecord,
)
_OVERHEAD = 400
"""Bytes of a document besides the fields of its record, about."""
_MIN_TEXT_CHARS, _LEAST_TEXT_CHARS = 300, 40
"""Minimum of the main text before other fields are cut, and after."""


def run(call: Call) -> Result:
    """Read the record, and fit its main text and its other fields into the budget."""
    ref = parse_record(call.arguments)
    require_expandable(call, stream=ref.stream, connection_id=ref.connection_id)
    budget = requested_budget(call.arguments, default=READ_BUDGET)
    params = [
        *connection_params(ref.connection_id),
        *query_params(call.arguments, "fields", "expand", "expand_limit"),
        ("form", "compact"),
        limit_param("max_bytes", budget.structured - _OVERHEAD),
        limit_param("max_line_bytes", budget.text - _OVERHEAD),
    ]
    body = call.get_json(record_path(ref), params)
    ref = resolve_record(ref, body)
    page, path = record_url(call.public_url, ref), f"{call.public_url}{record_path(ref)}"
    url = page if call.rest.has_pages else path
    record = FetchedRecord(call.arguments["id"], record_ids.format_id(ref), url, body)
    result = _fit_text(record, budget, least=_MIN_TEXT_CHARS)
    if result is None:
        result = _fit_fields(record, budget)
    if result is None:
        raise AdapterError(
            "result_too_large",
            "The record is larger than the result may be.",
            next_step="Call fetch again with fields, or with a larger max_bytes.",
        )
    return result


def _fit_fields(record: FetchedRecord, budget: Budget) -> Result | None:
    """Return the document with a short main text and as much of the other fields as fits."""
    data = record.body.get("data") or {}
    field = _main_field(record.body)
    main = {} if field is None else {field: data[field]}

    def with_fields(body: dict[str, Any]) -> FetchedRecord:
        return replace(record, body={**body, "data": {**main, **body["data"]}})

    shorter = shrink_record(
        {**record.body, "data": {name: data[name] for name in data if name not in main}},
        lambda body: _fit_text(with_fields(body), budget, least=_LEAST_TEXT_CHARS) is not None,
        describe_read=describe_read,
    )
    return _fit_text(with_fields(shorter), budget)


def _fit_text(record: FetchedRecord, budget: Budget, *, least: int = 0) -> Result | None:
    """Return the document with as much of its main text as fits, or None if less than `least`."""
    field = _main_field(record.body)
    if field is None:
        result = _result(record, None)
        return result if budget.allows(result) else None
    passage = text_passage(record.body["data"], field)

    def render(chars: int) -> Result:
        text = passage.text[: grapheme_floor(passage.text, chars + shortest)]
        return _result(record, replace(passage, text=text))

    shortest = min(least, len(passage.text))
    return largest_that_fits(len(passage.text) - shortest, render=render, fits=budget.allows)


def _result(record: FetchedRecord, passage: TextPassage | None) -> Result:
    document = build_document(record, passage)
    return Result(document, dumps(document))


TOOL = Tool("fetch", "Fetch a record", DESCRIPTION, ARGUMENTS, run)
