"""Resource templates: what a `pdpp://` URI opens for hosts that read resources.

Tools alone are always enough; every URI that a tool shows is accepted by a tool as well.
"""

import base64
from typing import Any

import mcp_types as types

from evidence import limits
from mcp_adapter import field_windows, ids, labels, record_refs, rest_params
from mcp_adapter.budget import Budget
from mcp_adapter.errors import AdapterError, from_rest
from mcp_adapter.json_text import dumps
from mcp_adapter.rest import Rest, segment
from mcp_adapter.tool import Call, Result

_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/x-ndjson")


def described(call: Call, uri: ids.Uri, *, budget: Budget) -> Result:
    """A blob as the result of read_record_field: text is windowed by bytes, the rest described."""
    start = int(call.given.get("cursor", call.given.get("offset_chars", 0)))
    room = budget.text // 3
    content, media_type, total = ranged(call, uri, start=start, length=room)
    while True:
        result = _result(uri, content, media_type, total=total, start=start)
        if budget.holds(result) or not content:
            return result
        content = content[: len(content) * 3 // 4]


def ranged(call: Call, uri: ids.Uri, *, start: int, length: int) -> tuple[bytes, str, int]:
    """Some bytes of the blob, its media type and its whole size."""
    answer = call.ask(
        f"/v1/blobs/{segment(uri.name)}",
        record_refs.connection_params(uri.connection_id),
        headers={"Range": f"bytes={start}-{start + length - 1}"},
    )
    if answer.status not in {200, 206}:
        raise from_rest(answer)
    content = answer.body if isinstance(answer.body, bytes) else dumps(answer.body).encode()
    headers = {name.lower(): value for name, value in answer.headers.items()}
    media_type = headers.get("content-type", "application/octet-stream")
    if answer.status == 206:
        total = headers.get("content-range", "").rpartition("/")[2]
        return content, media_type, int(total) if total.isdecimal() else start + len(content)
    return content[start : start + length], media_type, len(content)


def _result(uri: ids.Uri, content: bytes, media_type: str, *, total: int, start: int) -> Result:
    shown = ids.blob_uri(uri.name, connection_id=uri.connection_id)
    about = {"uri": shown, "blob_id": uri.name, "media_type": media_type, "total_bytes": total}
    body: dict[str, Any] = {"blob": about}
    if media_type.startswith(_TEXT_TYPES):
        text, end = _decoded(content, start)
        body["window"] = {
            "text": text,
            "unit": "bytes",
            "start": start,
            "end": end,
            "complete": start == 0 and end >= total,
        }
        if end < total:
            args = {"id": shown, "offset_chars": end}
            body["next"] = {"tool": "read_record_field", "args": args}
    else:
        body["window"] = {"text": None, "complete": False}
        body["next"] = f"resources/read {shown} gives the bytes; pdpp blob {shown} saves large ones"
    body["origin"] = labels.origin({})
    return Result(body, dumps(body))


def _decoded(content: bytes, start: int) -> tuple[str, int]:
    """UTF-8 text of a range, without a character that its end cuts."""
    for dropped in range(4):
        part = content[: len(content) - dropped]
        try:
            return part.decode(), start + len(part)
        except UnicodeDecodeError as error:
            if error.start < len(part) - 4:
                break
    return content.decode(errors="replace"), start + len(content)


def too_large(total: int) -> AdapterError:
    """The blob cannot be read as one resource."""
    return AdapterError(
        "result_too_large",
        f"The blob has {total} bytes.",
        next_step="Save it with pdpp blob ID, or read a text blob with read_record_field.",
    )


_JSON = "application/json"
_BLOB_BYTES = 1_048_576
TEMPLATES = [
    types.ResourceTemplate(
        name=name,
        uri_template=f"pdpp://{name}/{{{variable}}}",
        mime_type=media_type,
        description=description,
    )
    for name, variable, media_type, description in (
        ("stream", "name", _JSON, "One granted stream: its fields and what can be asked of it."),
        ("record", "handle", _JSON, "One record, large fields as windows."),
        ("field-window", "handle", "text/plain", "A window of one text field."),
        ("blob", "handle", None, "Binary content."),
    )
]
_Contents = list[types.TextResourceContents | types.BlobResourceContents]


def read(uri: str, rest: Rest, authority: object) -> _Contents:
    """The contents behind a URI; raises `ToolError`."""
    parsed = ids.parse_uri(uri, param="uri")
    call = Call(parsed.window, rest, authority, "")
    if parsed.kind == "blob":
        return [_blob(uri, call, parsed)]
    if parsed.kind == "stream":
        return [_json(uri, call.get(rest_params.stream_path(parsed.name)))]
    record = parsed.record
    assert record is not None  # noqa: S101 - the two kinds left are records
    if parsed.kind == "record":
        params = [
            *record_refs.connection_params(record.connection_id),
            ("max_bytes", str(limits.MAX_BYTES_MOST)),
        ]
        return [_json(uri, call.get(rest_params.record_path(record), params))]
    found = field_windows.reader(call, record, path=parsed.window["field_path"])(
        field_windows.selector(parsed.window)
    )
    return [types.TextResourceContents(uri=uri, mime_type="text/plain", text=found.window["text"])]


def _json(uri: str, body: dict[str, Any]) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, mime_type=_JSON, text=dumps(body))


def _blob(uri: str, call: Call, parsed: ids.Uri) -> types.BlobResourceContents:
    content, media_type, total = ranged(call, parsed, start=0, length=_BLOB_BYTES)
    if total > len(content):
        raise too_large(total)
    encoded = base64.b64encode(content).decode()
    return types.BlobResourceContents(uri=uri, mime_type=media_type, blob=encoded)
