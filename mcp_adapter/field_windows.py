"""Bounded windows into one field of one record, as REST cuts them.

A path is a field or a JSON Pointer into one; what is no text is windowed over its JSON.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from evidence import limits
from mcp_adapter import arguments, ids, record_refs, rest_params
from mcp_adapter.budget import whole
from mcp_adapter.errors import AdapterError
from mcp_adapter.tool import Call, succeeded


@dataclass(frozen=True, slots=True)
class Selector:
    """Where the window lies: at an offset, or around an occurrence of `q`."""

    offset: int | None
    q: str | None
    occurrence: int | None
    before: int | None
    after: int | None
    limit: int


@dataclass(frozen=True, slots=True)
class Found:
    """A window as REST words it, and what it is a window of.

    `about` is its media type and size, where known. Where the field points at binary content,
    `blob_id` names it.
    """

    ref: ids.RecordRef
    path: str
    kind: str
    window: dict[str, Any]
    about: dict[str, Any]
    origin: str | None = None
    blob_id: str | None = None

    def narrowed(self, chars: int) -> "Found":
        """The same place with at most `chars` characters, a match still inside."""
        text, start = self.window["text"], self.window["start_chars"]
        low = 0
        if "match_start_chars" in self.window:
            before = self.window["match_start_chars"] - start
            low = whole(text, before - before * chars // max(len(text), 1))
        part = text[low : max(low, whole(text, low + chars))]
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


def selector(given: arguments.Given) -> Selector:
    """One of cursor, offset_chars and q; raises `AdapterError` for any other combination."""
    ways = [name for name in ("cursor", "offset_chars", "q") if name in given]
    around = [name for name in ("occurrence", "before_chars", "after_chars") if name in given]
    if len(ways) > 1:
        raise _invalid(f"give only one of {', '.join(ways)}", param=ways[1])
    if around and ways != ["q"]:
        raise _invalid(f"{around[0]} needs q", param=around[0])
    cursor = given.get("cursor", "0")
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 12):
        raise _invalid("cursor is a number of characters, as next_cursor gives it", param="cursor")
    return Selector(
        None if "q" in given else given.get("offset_chars", int(cursor)),
        given.get("q"),
        given.get("occurrence"),
        given.get("before_chars"),
        given.get("after_chars"),
        given.get("limit_chars", limits.WINDOW_DEFAULT_CHARS),
    )


def _invalid(reason: str, *, param: str) -> AdapterError:
    return AdapterError(
        "invalid_field_window_selector",
        f"read_record_field: {reason}.",
        param=param,
        next_step="Call again with offset_chars alone, or with q and before_chars/after_chars.",
    )


def reader(call: Call, ref: ids.RecordRef, *, path: str) -> Callable[[Selector], Found]:
    """How to read windows of one field; it raises `ToolError` for what is refused."""

    def read(selected: Selector) -> Found:
        route = f"{rest_params.record_path(ref)}/field-window"
        body = succeeded(call.ask(route, _params(ref, path, selected)))
        field = body["field"]
        about = {name: field[name] for name in ("media_type", "size_bytes") if name in field}
        return Found(
            record_refs.resolved(ref, body),
            path,
            field.get("type", "string"),
            body["window"],
            about,
            body.get("origin"),
            pointed_at(field.get("blob")),
        )

    return read


def _params(ref: ids.RecordRef, path: str, selected: Selector) -> list[tuple[str, str]]:
    named = {
        "offset_chars": selected.offset,
        "q": selected.q,
        "occurrence": selected.occurrence,
        "before_chars": selected.before,
        "after_chars": selected.after,
        "limit_chars": selected.limit,
    }
    return [
        *record_refs.connection_params(ref.connection_id),
        ("field", path),
        *((name, str(value)) for name, value in named.items() if value is not None),
    ]


def pointed_at(value: Any) -> str | None:
    """The blob that a `blob_ref` names, if the value is one."""
    blob_id = value.get("blob_id") if isinstance(value, dict) else None
    return blob_id if isinstance(blob_id, str) and blob_id else None
