"""A record, for people: its name, where it is from, its fields."""

import json
from collections.abc import Iterator
from typing import Any

from evidence.cli.references import shown
from evidence.cli.shown import json_text, line, plain


def name_of(record: dict[str, Any]) -> str:
    """What `pdpp fetch` takes."""
    return shown(record.get("connection_id"), str(record.get("stream")), str(record.get("id")))


def record_lines(record: dict[str, Any], *, most: int = 0) -> Iterator[str]:
    """The name and each field; texts are whole, or cut at `most` characters and on one line."""
    yield f"{line(name_of(record))}{_source(record)}"
    if record.get("deleted"):
        yield f"  deleted {line(record.get('deleted_at') or '')}".rstrip()
    for field, value in (record.get("data") or {}).items():
        yield f"  {line(field)}: {_value(value, most)}"


def _source(record: dict[str, Any]) -> str:
    label = record.get("display_name") or record.get("connector_key")
    return f"  ({line(label)})" if label else ""


def _value(value: object, most: int) -> str:
    if isinstance(value, dict) and value.get("object") == "field_window_read":
        return f"{line(value.get('preview') or '')}… ({value.get('total_chars')} characters)"
    text = value if isinstance(value, str) else json_text(json.dumps(value, ensure_ascii=False))
    return line(text, most=most) if most else plain(text).replace("\n", "\n    ")
