"""UTF-8 sizes of JSON values as a model sees them, with invisible characters escaped.

Models receive invisible characters (`limits.INVISIBLE`) as escapes. Sizes count the escapes, so that
hostile text cannot exceed a budget.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from django.conf import settings

from evidence import limits
from evidence.record_ids import RecordRef, format_id

Json = dict[str, Any]

MAX_NAMES = 6
TITLE_CHARS, TITLE_BYTES, SOURCE_CHARS = 120, 400, 100
SNIPPET_BYTES = 700
_OMITTED_FIELDS = {"omitted_fields": 10_000, "read": "fetch(id, fields) reads them"}
_VISIBLE_ASCII = bytes(range(0x7F))
_EXTRA_BYTES = {
    chr(code): (6 if code <= 0xFFFF else 12) - len(chr(code).encode())
    for first, last in limits.INVISIBLE
    for code in range(first, last + 1)
}
"""Invisible character -> bytes that its escape adds."""


def json_size(value: object) -> int:
    """Return the size of the value as JSON, in bytes."""
    raw = orjson.dumps(value)
    return len(raw) + _escape_bytes(raw)


def quoted_json_size(value: object) -> int:
    """Return the size of the value as JSON inside a JSON string, in bytes."""
    raw = orjson.dumps(value)
    escape_bytes = _escape_bytes(raw, per_backslash=1)
    return len(raw) + escape_bytes + raw.count(b'"') + raw.count(b"\\")


def _escape_bytes(raw: bytes, *, per_backslash: int = 0) -> int:
    """Return the bytes that escaping adds, plus `per_backslash` for each added backslash."""
    others = raw.translate(None, _VISIBLE_ASCII)
    if not others:
        return 0
    extra = [_EXTRA_BYTES[char] for char in others.decode() if char in _EXTRA_BYTES]
    # A character above U+FFFF takes two escapes.
    return sum(extra) + per_backslash * sum(2 if added >= 8 else 1 for added in extra)


def line_size(row: Mapping[str, Any]) -> int:
    """Return the size of the item's line in the text channel, with a comma."""
    return quoted_json_size(_line(row)) + 1


def structured_entry_size(row: Mapping[str, Any]) -> int:
    """Return the size of the item's entry in the structured channel.

    A record has only its id there. A search hit also has its line, its source and a snippet.
    """
    if row["object"] != "search_result":
        return json_size(_record_id(row)) + 1
    source = ("stream", "record_key", "connection_id", "connector_key", "display_name", "origin")
    snippet_bytes = max(
        (json_size(excerpt["plain_text"]) for excerpt in row["evidence_excerpts"]), default=0
    )
    entry = _line(row) | {name: row.get(name) for name in source}
    markup_bytes = len('"snippet":,<mark></mark>')
    return json_size(entry) + min(snippet_bytes, SNIPPET_BYTES * 3) + markup_bytes


def _line(row: Mapping[str, Any]) -> Json:
    line: Json = {"id": _record_id(row)}
    if row["object"] == "search_result":
        return line | _hit_members(row)
    if row.get("deleted"):
        return line | {"deleted": True, "deleted_at": row["deleted_at"]}
    line |= {"cut": list(row["data"])[:MAX_NAMES], "cut_more": 9_999}
    if row.get("omitted_field_count"):
        line |= _OMITTED_FIELDS
    if "expanded" in row:
        line["expanded"] = {name: _related(body) for name, body in row["expanded"].items()}
    return line


def _hit_members(row: Mapping[str, Any]) -> Json:
    excerpts = row["evidence_excerpts"]
    source = f"{row['display_name'][:SOURCE_CHARS]} ({row['connector_key']})"
    title = row.get("title") or f"{source} / {row['stream']} / {row['emitted_at']}"
    title = title[:TITLE_CHARS]
    while json_size(title) > TITLE_BYTES:
        title = title[: len(title) * 3 // 4]
    members = {
        "title": f"{title}…",
        "url": f"{settings.PDPP_PUBLIC_URL}/records/{row['connection_id']}{row['record_url']}",
        "source": source,
    }
    if excerpts:
        return members | {"field": excerpts[0]["field_path"]}
    if "snippet" not in row:
        return members
    near = {"field_path": row["snippet"]["field"], "offset_chars": 10**9}
    return members | {"near": near}


def _related(body: Mapping[str, Any] | None) -> object:
    if body is None or body["object"] != "list":
        return None if body is None else _line(body)
    return {"records": [_line(child) for child in body["data"]], "has_more": False}


def _record_id(row: Mapping[str, Any]) -> str:
    key = row.get("record_key") or row["id"]
    return format_id(RecordRef(row["connection_id"], row["stream"], key))
