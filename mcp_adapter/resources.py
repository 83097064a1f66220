"""Resource templates: what a `pdpp://` URI opens for hosts that read resources.

Tools alone are always enough; every URI that a tool shows is accepted by a tool as well.
"""

import base64
from typing import Any

import mcp_types as types

from evidence import limits
from mcp_adapter import blobs, ids, queries, targets, windows
from mcp_adapter.json_text import dumps
from mcp_adapter.rest import Rest
from mcp_adapter.tool import Call

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
        return [_json(uri, call.get(queries.stream_path(parsed.name)))]
    record = parsed.record
    assert record is not None  # noqa: S101 - the two kinds left are records
    if parsed.kind == "record":
        params = [
            *targets.connection_params(record.connection_id),
            ("max_bytes", str(limits.MAX_BYTES_MOST)),
        ]
        return [_json(uri, call.get(queries.record_path(record), params))]
    found = windows.reader(call, record, path=parsed.window["field_path"])(
        windows.selector(parsed.window)
    )
    return [types.TextResourceContents(uri=uri, mime_type="text/plain", text=found.window["text"])]


def _json(uri: str, body: dict[str, Any]) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, mime_type=_JSON, text=dumps(body))


def _blob(uri: str, call: Call, parsed: ids.Uri) -> types.BlobResourceContents:
    content, media_type, total = blobs.ranged(call, parsed, start=0, length=_BLOB_BYTES)
    if total > len(content):
        raise blobs.too_large(total)
    encoded = base64.b64encode(content).decode()
    return types.BlobResourceContents(uri=uri, mime_type=media_type, blob=encoded)
