"""Binary content: what it is, how large it is, a preview where that is safe, and how to read on."""

from typing import Any

from mcp_adapter import ids, labels, targets
from mcp_adapter.budgets import Budget
from mcp_adapter.errors import AdapterError, from_rest
from mcp_adapter.json_text import dumps
from mcp_adapter.rest import segment
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
        targets.connection_params(uri.connection_id),
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
