"""How many bytes something takes where a model is shown it.

That is UTF-8 JSON, but with every character that cannot be seen as an escape (``limits.INVISIBLE``),
because that is how it reaches a model: a byte more or less on our own wire does not matter, a budget
that hostile text outgrows does.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any

import orjson
from django.conf import settings

from evidence import limits

_VISIBLE_ASCII = bytes(range(0x7F))
_ESCAPED = {
    chr(code): (6 if code <= 0xFFFF else 12) - len(chr(code).encode())
    for first, last in limits.INVISIBLE
    for code in range(first, last + 1)
}


def size(value: object) -> int:
    """Bytes of the value as JSON."""
    raw = orjson.dumps(value)
    return len(raw) + _escapes(raw)


def quoted_size(value: object) -> int:
    """Bytes of the value as JSON inside a JSON string."""
    raw = orjson.dumps(value)
    escaped = _escapes(raw, each=1)
    return len(raw) + escaped + raw.count(b'"') + raw.count(b"\\")


def _escapes(raw: bytes, *, each: int = 0) -> int:
    """What escaping adds; ``each`` for every backslash that it brings."""
    others = raw.translate(None, _VISIBLE_ASCII)
    if not others:
        return 0
    found = [_ESCAPED[char] for char in others.decode() if char in _ESCAPED]
    # Characters beyond 16 bits take two escapes.
    return sum(found) + each * sum(2 if more >= 8 else 1 for more in found)


Json = dict[str, Any]
NAMES = 6
TITLE_CHARS, TITLE_BYTES, SOURCE_CHARS = 120, 400, 100
SNIPPET_BYTES = 700
_APART = re.compile(r"[\x00-\x1f\x7f/\\]|\.\.")
_LEFT_OUT = {"omitted_fields": 10_000, "read": "fetch(id, fields) reads them"}


def line_bytes(row: Mapping[str, Any]) -> int:
    """The line as JSON inside a JSON string, and a comma."""
    return quoted_size(_line(row)) + 1


def beside_bytes(row: Mapping[str, Any]) -> int:
    """What a caller of lines keeps beside the item: its name, and of a hit all that the line has,
    its source and a snippet."""
    if row["object"] != "search_result":
        return size(_name(row)) + 1
    source = ("stream", "record_key", "connection_id", "connector_key", "display_name", "origin")
    plain = max((size(each["plain_text"]) for each in row["evidence_excerpts"]), default=0)
    entry = _line(row) | {name: row.get(name) for name in source}
    return size(entry) + min(plain, SNIPPET_BYTES * 3) + len('"snippet":,<mark></mark>')


def _line(row: Mapping[str, Any]) -> Json:
    line: Json = {"id": _name(row)}
    if row["object"] == "search_result":
        return line | _of_hit(row)
    if row.get("deleted"):
        return line | {"deleted": True, "deleted_at": row["deleted_at"]}
    line |= {"cut": list(row["data"])[:NAMES], "cut_more": 9_999}
    if row.get("omitted_field_count"):
        line |= _LEFT_OUT
    if "expanded" in row:
        line["expanded"] = {name: _children(found) for name, found in row["expanded"].items()}
    return line


def _of_hit(row: Mapping[str, Any]) -> Json:
    excerpts = row["evidence_excerpts"]
    label = f"{row['display_name'][:SOURCE_CHARS]} ({row['connector_key']})"
    title = row.get("title") or f"{label} / {row['stream']} / {row['emitted_at']}"
    title = title[:TITLE_CHARS]
    while size(title) > TITLE_BYTES:
        title = title[: len(title) * 3 // 4]
    shown = {
        "title": f"{title}…",
        "url": f"{settings.PDPP_PUBLIC_URL}/records/{row['connection_id']}{row['record_url']}",
        "source": label,
    }
    if excerpts:
        return shown | {"field": excerpts[0]["field_path"]}
    if "snippet" not in row:
        return shown
    near = {"field_path": row["snippet"]["field"], "offset_chars": 10**9}
    return shown | {"near": near}


def _children(found: Mapping[str, Any] | None) -> object:
    if found is None or found["object"] != "list":
        return None if found is None else _line(found)
    return {"records": [_line(child) for child in found["data"]], "has_more": False}


def _name(row: Mapping[str, Any]) -> str:
    """The id under which agents know a record: short where the grammar carries its parts."""
    key = row.get("record_key") or row["id"]
    stream, connection_id = row["stream"], row["connection_id"]
    if key != "." and not _APART.search(key) and ":" not in stream:
        return f"{connection_id}/{stream}:{key}"
    named = {"connection_id": connection_id, "stream": stream, "record_id": key}
    packed = orjson.dumps({"v": 1, "kind": "record", **named})
    return f"pdpp://record/{base64.urlsafe_b64encode(packed).decode()}"
