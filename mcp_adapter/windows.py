"""Bounded windows into one field of one record.

A text field is windowed by REST. A field that holds something else, and a value inside such a
field (JSON Pointer), is read once and windowed here, over the string itself or over its JSON.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evidence import limits
from mcp_adapter import arguments, ids, queries, targets
from mcp_adapter.errors import AdapterError
from mcp_adapter.json_text import dumps
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

    def narrowed(self, chars: int, *, of: int) -> "Selector":
        """The same place with `chars` characters instead of `of`, the match still inside."""
        return Selector(
            self.offset,
            self.q,
            self.occurrence,
            None if self.before is None else self.before * chars // max(of, 1),
            None if self.after is None else self.after * chars // max(of, 1),
            chars,
        )


@dataclass(frozen=True, slots=True)
class Found:
    """A window as REST words it, and what it is a window of.

    Where the field points at binary content, `blob_id` names it and there is no window.
    """

    ref: ids.RecordRef
    path: str
    kind: str
    window: dict[str, Any]
    blob_id: str | None = None


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
    field, rest = _split(path)
    if rest:
        return _local(call, ref, field=field, path=path, pointer=rest)

    def read(selected: Selector) -> Found:
        answer = call.ask(f"{queries.record_path(ref)}/field-window", _params(ref, field, selected))
        if answer.status == 422:
            return _local(call, ref, field=field, path=path, pointer=[])(selected)
        body = succeeded(answer)
        found = targets.resolved(ref, body)
        return Found(found, path, body["field"].get("type", "string"), body["window"])

    return read


def _params(ref: ids.RecordRef, field: str, selected: Selector) -> list[tuple[str, str]]:
    named = {
        "offset_chars": selected.offset,
        "q": selected.q,
        "occurrence": selected.occurrence,
        "before_chars": selected.before,
        "after_chars": selected.after,
        "limit_chars": selected.limit,
    }
    return [
        *targets.connection_params(ref.connection_id),
        ("field", field),
        *((name, str(value)) for name, value in named.items() if value is not None),
    ]


def _split(path: str) -> tuple[str, list[str]]:
    """A top-level field and the JSON Pointer tokens below it."""
    if not path.startswith("/"):
        return path, []
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]
    return tokens[0], tokens[1:]


def _local(
    call: Call, ref: ids.RecordRef, *, field: str, path: str, pointer: list[str]
) -> Callable[[Selector], Found]:
    params = [
        *targets.connection_params(ref.connection_id),
        ("fields", field),
        ("max_bytes", str(limits.MAX_BYTES_MOST)),
    ]
    record = call.get(queries.record_path(ref), params)
    found = targets.resolved(ref, record)
    value = _at(record.get("data", {}).get(field), pointer)
    kind = "string" if isinstance(value, str) else "json"
    whole = value if isinstance(value, str) else dumps(value)

    def read(selected: Selector) -> Found:
        if (blob_id := pointed_at(value)) is not None:
            return Found(found, path, "binary", {}, blob_id)
        return Found(found, path, kind, _window(whole, selected))

    return read


def pointed_at(value: Any) -> str | None:
    """The blob that a `blob_ref` names, if the value is one."""
    blob_id = value.get("blob_id") if isinstance(value, dict) else None
    return blob_id if isinstance(blob_id, str) and blob_id else None


def _at(value: Any, pointer: list[str]) -> Any:
    for token in pointer:
        if isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        elif isinstance(value, dict) and token in value:
            value = value[token]
        else:
            raise AdapterError(
                "field_not_found",
                "The record has nothing at that path.",
                param="field_path",
                next_step="Call read_record_field with the top-level field to see what is in it.",
            )
    return value


def _window(whole: str, selected: Selector) -> dict[str, Any]:
    start, match = selected.offset or 0, {}
    limit = min(selected.limit, limits.WINDOW_MAX_CHARS)
    if selected.q is not None:
        at = _occurrence(whole, selected.q, selected.occurrence or 1)
        end_of_match = at + len(selected.q)
        before = min(selected.before if selected.before is not None else limit // 2, at)
        after = selected.after if selected.after is not None else limit
        start, limit = at - before, min(limit, before + len(selected.q) + after)
        match = {"match_start_chars": at, "match_end_chars": end_of_match}
    start = min(start, len(whole))
    end = min(start + limit, len(whole))
    return {
        "text": whole[start:end],
        "start_chars": start,
        "end_chars": end,
        "limit_chars": limit,
        "total_chars": len(whole),
        "complete": start == 0 and end == len(whole),
        "has_more": end < len(whole),
        "next_offset_chars": end if end < len(whole) else None,
        "previous_offset_chars": max(0, start - limit) if start else None,
        **match,
    }


def _occurrence(whole: str, q: str, occurrence: int) -> int:
    # Lower case keeps the length of nearly every text; where it does not, match exactly.
    low, wanted = whole.lower(), q.lower()
    if len(low) != len(whole) or len(wanted) != len(q):
        low, wanted = whole, q
    at = -1
    for _ in range(occurrence):
        at = low.find(wanted, at + 1)
        if at < 0:
            raise AdapterError(
                "query_not_found",
                "The text asked for does not occur there.",
                param="q",
                next_step="Call read_record_field without q to read from the start.",
            )
    return at
