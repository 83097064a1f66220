"""The last resort for an item that is too large for its channel: cut by name, never in silence.

REST bounds its items itself: large fields become window descriptors, and what is left out is
counted in `omitted_field_count`. This does the same to what is left when a result may be smaller
than REST cuts, or when a remote provider cuts nothing.
"""

from typing import Any

from mcp_adapter.json_text import dumps, size
from mcp_adapter.labels import clipped

_WORTH_CUTTING = 200
_PREVIEW_CHARS = 60
_NAMES_SHOWN = 10


def shrunk(body: dict[str, Any], *, most: int) -> dict[str, Any]:
    """The list body, its one item cut until the whole takes at most `most` bytes, if it can."""
    (item,) = body["data"]
    room = most - (size(body) - size(item))
    cut = _hit(item, most=room) if "evidence_excerpts" in item else _record(item, most=room)
    return {**body, "data": [cut]}


def _record(item: dict[str, Any], *, most: int) -> dict[str, Any]:
    """The record, its largest fields described first and then its last ones left out."""
    fields = dict(item.get("data", {}))
    room = most - (size(item) - size(fields))
    for name in sorted(fields, key=lambda name: size(fields[name]), reverse=True):
        if size(fields) <= room or size(fields[name]) < _WORTH_CUTTING:
            break
        fields[name] = descriptor(name, fields[name])
    kept = dict(fields)
    while kept and size(kept) > room:
        kept = dict(list(kept.items())[: len(kept) * 3 // 4])
    return {**item, "data": kept, **_omitted(item, [name for name in fields if name not in kept])}


def _omitted(item: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """What the record lacks, as REST words it, added to what it lacked already."""
    if not names:
        return {}
    named = [name[:64] for name in [*item.get("omitted_fields", []), *names]]
    return {
        "omitted_fields": named[:_NAMES_SHOWN],
        "omitted_field_count": item.get("omitted_field_count", 0) + len(names),
    }


def descriptor(name: str, value: Any) -> dict[str, Any]:
    """Stands for a field that is too large, as REST's own window descriptor does."""
    if isinstance(value, dict) and value.get("object") == "field_window_read":
        return {**value, "preview": str(value.get("preview", ""))[:_PREVIEW_CHARS]}
    whole = value if isinstance(value, str) else dumps(value)
    return {
        "object": "field_window_read",
        "truncated": True,
        "field": name,
        "preview": whole[:_PREVIEW_CHARS],
        "total_chars": len(whole),
        "total_bytes": len(whole.encode(errors="replace")),
        "read": {"tool": "read_record_field", "field_path": name},
    }


def _hit(item: dict[str, Any], *, most: int) -> dict[str, Any]:
    """The hit with its first excerpt alone, and then with its long strings cut."""
    excerpts = item["evidence_excerpts"]
    cut = {**item, "evidence_excerpts": excerpts[:1]}
    if len(excerpts) > 1:
        cut["evidence_excerpts_left_out"] = len(excerpts) - 1
    return cut if size(cut) <= most else {**_clipped(cut), "cut": True}


def _clipped(value: Any) -> Any:
    """The value with its long strings cut, as its `cut` mark says."""
    if isinstance(value, str):
        while size(value) > _WORTH_CUTTING:
            value = clipped(value, len(value) * 3 // 4)
        return value
    if isinstance(value, dict):
        return {name: _clipped(inner) for name, inner in value.items()}
    return [_clipped(inner) for inner in value] if isinstance(value, list) else value


def shrunk_groups(body: dict[str, Any]) -> dict[str, Any]:
    """An aggregate with a quarter of its groups fewer, the missing ones counted."""
    groups = body["groups"]
    kept = len(groups) * 3 // 4
    left_out = body.get("groups_left_out", 0) + len(groups) - kept
    return {**body, "groups": groups[:kept], "groups_left_out": left_out}
