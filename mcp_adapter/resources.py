"""Read what a pdpp:// URI names: field windows, blob content, JSON resources; resource templates.

Every URI that a tool shows is also accepted by a tool, so hosts without resources lose nothing.
"""

import base64
from dataclasses import dataclass, replace
from typing import Any

import mcp_types as types

from evidence import limits, record_ids
from evidence.item_lines import origin_mark
from evidence.page_cutter import dumps, grapheme_floor, json_size
from mcp_adapter.rest import Rest
from mcp_adapter.tool import (
    AdapterError,
    Arguments,
    Budget,
    Call,
    Result,
    connection_params,
    error_from_response,
    parse_uri,
    query_params,
    record_path,
    referenced_blob_id,
    resolve_record,
    stream_path,
)


@dataclass(frozen=True, slots=True)
class FieldWindow:
    """A window as REST returns it, with the field that it belongs to.

    `metadata` is the media type and size of the field, where known. `blob_id` is set if the field
    refers to binary content.
    """

    ref: record_ids.RecordRef
    path: str
    field_type: str
    window: dict[str, Any]
    metadata: dict[str, Any]
    origin: str | None = None
    blob_id: str | None = None

    def narrowed(self, chars: int) -> "FieldWindow":
        """Return the window cut to `chars` characters, with a match still inside."""
        text, start = self.window["text"], self.window["start_chars"]
        low = 0
        if "match_start_chars" in self.window:
            before = self.window["match_start_chars"] - start
            low = grapheme_floor(text, before - before * chars // max(len(text), 1))
        part = text[low : max(low, grapheme_floor(text, low + chars))]
        begin, end, total = start + low, start + low + len(part), self.window["total_chars"]
        return replace(
            self,
            window={
                **self.window,
                "text": part,
                "start_chars": begin,
                "end_chars": end,
                "limit_chars": chars,
                "complete": len(part) == total,
                "has_more": end < total,
                "next_offset_chars": end if end < total else None,
                "previous_offset_chars": max(0, begin - chars) if begin else None,
            },
        )


def read_window(
    call: Call, ref: record_ids.RecordRef, *, path: str, arguments: Arguments
) -> FieldWindow:
    """Read the window that the arguments select. Raises ToolError."""
    params = [
        *connection_params(ref.connection_id),
        ("field", path),
        *_window_params(arguments),
    ]
    body = call.get_json(f"{record_path(ref)}/field-window", params)
    field = body["field"]
    return FieldWindow(
        resolve_record(ref, body),
        path,
        field.get("type", "string"),
        body["window"],
        {name: field[name] for name in ("media_type", "size_bytes", "item_count") if name in field},
        body.get("origin"),
        referenced_blob_id(field.get("blob")),
    )


def _window_params(arguments: Arguments) -> list[tuple[str, str]]:
    """Return the REST parameters for one of cursor, offset_chars and q."""
    starts = [name for name in ("cursor", "offset_chars", "q") if name in arguments]
    context = [name for name in ("occurrence", "before_chars", "after_chars") if name in arguments]
    if len(starts) > 1:
        raise _invalid_selector(f"give only one of {', '.join(starts)}", param=starts[1])
    if context and starts != ["q"]:
        raise _invalid_selector(f"{context[0]} needs q", param=context[0])
    cursor = arguments.get("cursor", "0")
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 12):
        raise _invalid_selector(
            "cursor is a number of characters, as next_cursor gives it", param="cursor"
        )
    if "q" in arguments:
        start = query_params(arguments, "q", "occurrence", "before_chars", "after_chars")
    else:
        start = [("offset_chars", str(arguments.get("offset_chars", int(cursor))))]
    return [*start, *query_params(arguments, "limit_chars")]


def _invalid_selector(reason: str, *, param: str) -> AdapterError:
    return AdapterError(
        "invalid_field_window_selector",
        f"read_record_field: {reason}.",
        param=param,
        next_step="Call again with offset_chars alone, or with q and before_chars/after_chars.",
    )


_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/x-ndjson")


def blob_result(call: Call, uri: record_ids.ParsedUri, *, budget: Budget) -> Result:
    """Return a blob as the result of read_record_field: a window of bytes for text, else metadata."""
    start = int(call.arguments.get("cursor", call.arguments.get("offset_chars", 0)))
    content, media_type, total = _read_range(call, uri, start=start, length=budget.text // 3)
    while True:
        result = _window_result(uri, content, media_type, total=total, start=start)
        if budget.allows(result) or not content:
            return result
        content = content[: len(content) * 3 // 4]


def _read_range(
    call: Call, uri: record_ids.ParsedUri, *, start: int, length: int
) -> tuple[bytes, str, int]:
    """Return some bytes of the blob, its media type and its total size."""
    response = call.get(
        f"/v1/blobs/{record_ids.path_segment(uri.name)}",
        connection_params(uri.connection_id),
        headers={"Range": f"bytes={start}-{start + length - 1}"},
    )
    if response.status not in {200, 206}:
        raise error_from_response(response)
    body = response.body
    content = body if isinstance(body, bytes) else dumps(body).encode()
    headers = {name.lower(): value for name, value in response.headers.items()}
    media_type = headers.get("content-type", "application/octet-stream")
    if response.status == 206:
        total = headers.get("content-range", "").rpartition("/")[2]
        return content, media_type, int(total) if total.isdecimal() else start + len(content)
    return content[start : start + length], media_type, len(content)


def _window_result(
    uri: record_ids.ParsedUri, content: bytes, media_type: str, *, total: int, start: int
) -> Result:
    blob_uri = record_ids.blob_uri(uri.name, connection_id=uri.connection_id)
    body: dict[str, Any] = {
        "blob": {
            "uri": blob_uri,
            "blob_id": uri.name,
            "media_type": media_type,
            "total_bytes": total,
        }
    }
    if media_type.startswith(_TEXT_TYPES):
        text, end = _decode(content, start)
        body["window"] = {
            "text": text,
            "unit": "bytes",
            "start": start,
            "end": end,
            "complete": start == 0 and end >= total,
        }
        if end < total:
            arguments = {"id": blob_uri, "offset_chars": end}
            body["next"] = {"tool": "read_record_field", "args": arguments}
    else:
        body["window"] = {"text": None, "complete": False}
        body["next"] = (
            f"resources/read {blob_uri} gives the bytes; pdpp blob {blob_uri} saves large ones"
        )
    body["origin"] = origin_mark({})
    return Result(body, dumps(body))


def _decode(content: bytes, start: int) -> tuple[str, int]:
    """Return the text of a range without a character cut at its end, and the end of the text."""
    for dropped in range(4):
        part = content[: len(content) - dropped]
        try:
            return part.decode(), start + len(part)
        except UnicodeDecodeError as error:
            if error.start < len(part) - 4:
                break
    return content.decode(errors="replace"), start + len(content)


_JSON = "application/json"
_MAX_BLOB_BYTES = 1_048_576
TEMPLATES = [
    types.ResourceTemplate(
        name=name,
        uri_template=f"pdpp://{name}/{{{variable}}}",
        mime_type=media_type,
        description=description,
    )
    for name, variable, media_type, description in (
        (
            "stream",
            "name}{?connection_id",
            _JSON,
            "One granted stream: its fields and what can be asked of it.",
        ),
        ("record", "handle", _JSON, "One record, large fields as windows."),
        ("field-window", "handle", "text/plain", "A window of one text field."),
        ("blob", "handle", None, "Binary content."),
    )
]
_Contents = list[types.TextResourceContents | types.BlobResourceContents]


def read(uri: str, rest: Rest, authority: object) -> _Contents:
    """Return the contents that a URI names. Raises ToolError."""
    parsed = parse_uri(uri, param="uri")
    call = Call(parsed.window, rest, authority, "")
    if parsed.kind == "blob":
        return [_blob(uri, call, parsed)]
    if parsed.kind == "stream":
        return [_stream(uri, call, parsed)]
    record = parsed.record
    assert record is not None  # noqa: S101 - the remaining two kinds name a record
    if parsed.kind == "record":
        params = [
            *connection_params(record.connection_id),
            ("max_bytes", str(limits.MAX_BYTES_MOST)),
        ]
        return [_json(uri, call.get_json(record_path(record), params))]
    read = read_window(call, record, path=parsed.window["field_path"], arguments=parsed.window)
    text = types.TextResourceContents(uri=uri, mime_type="text/plain", text=read.window["text"])
    # A URI that says how much to read needs no word on where that ends.
    ended_here = read.window["has_more"] and not {"limit_chars", "q"} & set(parsed.window)
    return [text, _extent(uri, read)] if ended_here else [text]


def _extent(uri: str, read: FieldWindow) -> types.TextResourceContents:
    """Return which part of the field a window is, and the call that reads on, beside its text."""
    extent = {name: read.window[name] for name in ("start_chars", "end_chars", "total_chars")}
    arguments = {
        "id": record_ids.format_id(read.ref),
        "field_path": read.path,
        "offset_chars": read.window["next_offset_chars"],
    }
    step = {"tool": "read_record_field", "args": arguments}
    return _json(uri, {"window": extent, "complete": False, "next": step})


def _stream(uri: str, call: Call, parsed: record_ids.ParsedUri) -> types.TextResourceContents:
    """Return what is declared of a stream, or its compact schema where that is too large."""
    connection = connection_params(parsed.connection_id)
    body = call.get_json(stream_path(parsed.name), connection)
    if json_size(body) > limits.MAX_BYTES_MOST:
        body = call.get_json(
            "/v1/schema", [("view", "compact"), ("stream", parsed.name), *connection]
        )
    if json_size(body) > limits.MAX_BYTES_MOST:
        raise AdapterError(
            "result_too_large",
            "The stream has too many fields for one resource.",
            next_step=f"Call schema(stream={parsed.name!r}), which gives them in pages.",
        )
    return _json(uri, body)


def _json(uri: str, body: dict[str, Any]) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, mime_type=_JSON, text=dumps(body))


def _blob(uri: str, call: Call, parsed: record_ids.ParsedUri) -> types.BlobResourceContents:
    content, media_type, total = _read_range(call, parsed, start=0, length=_MAX_BLOB_BYTES)
    if total > len(content):
        raise AdapterError(
            "result_too_large",
            f"The blob has {total} bytes.",
            next_step="Save it with pdpp blob ID, or read a text blob with read_record_field.",
        )
    encoded = base64.b64encode(content).decode()
    return types.BlobResourceContents(uri=uri, mime_type=media_type, blob=encoded)
