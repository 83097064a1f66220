"""Read a bounded window of one field of one record.

A path is a field name or a JSON Pointer into a field. A value that is not text is read as JSON.
"""

from dataclasses import dataclass, replace
from typing import Any

from evidence import limits, record_ids
from evidence.page_cutter import grapheme_boundary
from mcp_adapter import record_refs, rest_params
from mcp_adapter.arguments import Arguments
from mcp_adapter.errors import AdapterError
from mcp_adapter.tool import Call


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
            low = grapheme_boundary(text, before - before * chars // max(len(text), 1))
        part = text[low : max(low, grapheme_boundary(text, low + chars))]
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
        *record_refs.connection_params(ref.connection_id),
        ("field", path),
        *_window_params(arguments),
    ]
    body = call.get_json(f"{rest_params.record_path(ref)}/field-window", params)
    field = body["field"]
    return FieldWindow(
        record_refs.resolve(ref, body),
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
        start = rest_params.query_params(
            arguments, "q", "occurrence", "before_chars", "after_chars"
        )
    else:
        start = [("offset_chars", str(arguments.get("offset_chars", int(cursor))))]
    limit = arguments.get("limit_chars", limits.WINDOW_DEFAULT_CHARS)
    return [*start, ("limit_chars", str(limit))]


def _invalid_selector(reason: str, *, param: str) -> AdapterError:
    return AdapterError(
        "invalid_field_window_selector",
        f"read_record_field: {reason}.",
        param=param,
        next_step="Call again with offset_chars alone, or with q and before_chars/after_chars.",
    )


def referenced_blob_id(value: Any) -> str | None:
    """Return the blob id of a `blob_ref` value, or None for any other value."""
    blob_id = value.get("blob_id") if isinstance(value, dict) else None
    return blob_id if isinstance(blob_id, str) and blob_id else None
