"""The last resort for an item that is too large for its channel: cut by name, never in silence.

REST replaces large fields by window descriptors itself. This does the same to what is left when a
result may be smaller than REST cuts, or when a remote provider cuts nothing.
"""

from typing import Any

from mcp_adapter.json_text import dumps, size
from mcp_adapter.labels import clipped

_WORTH_CUTTING = 200
_PREVIEW_CHARS = 60
_NAMES_SHOWN = 12


def shrunk(body: dict[str, Any], *, most: int) -> dict[str, Any]:
    """The list body with its items cut until it takes at most `most` bytes, as far as it can."""
    items = [dict(item) for item in body["data"]]
    spare = size({**body, "data": items}) - most
    for item in items:
        if spare > 0:
            before = size(item)
            _shrink_item(item, most=max(before - spare, 0))
            spare -= before - size(item)
    return {**body, "data": items}


def _shrink_item(item: dict[str, Any], *, most: int) -> None:
    _shrink_evidence(item, most=most)
    if isinstance(item.get("data"), dict):
        item["data"] = shrunk_fields(item["data"], most=most - (size(item) - size(item["data"])))


def shrunk_fields(fields: dict[str, Any], *, most: int) -> dict[str, Any]:
    """Record fields, the largest replaced by descriptors first, the last left out by name."""
    cut = dict(fields)
    for name in sorted(cut, key=lambda name: size(cut[name]), reverse=True):
        if size(cut) <= most or size(cut[name]) < _WORTH_CUTTING:
            break
        cut[name] = descriptor(name, cut[name])
    while cut and size(cut) > most:
        left_out = len(fields) - len(cut) + 1
        cut = dict(list(cut.items())[: len(cut) * 3 // 4])
        if size(cut) + 200 <= most or not cut:
            left_out = len(fields) - len(cut)
            return {**cut, "...": _left_out(fields, kept=len(cut), count=left_out)}
    return cut


def _left_out(fields: dict[str, Any], *, kept: int, count: int) -> dict[str, Any]:
    names = [name[:32] for name in list(fields)[kept : kept + _NAMES_SHOWN]]
    return {
        "object": "fields_left_out",
        "truncated": True,
        "count": count,
        "first": names,
        "read": "query_records or fetch with fields",
    }


def descriptor(name: str, value: Any) -> dict[str, Any]:
    """Stands for a field that is too large, as REST's own window descriptor does."""
    whole = value if isinstance(value, str) else dumps(value)
    if isinstance(value, dict) and value.get("object") == "field_window_read":
        return {**value, "preview": str(value.get("preview", ""))[:_PREVIEW_CHARS]}
    return {
        "object": "field_window_read",
        "truncated": True,
        "field": name,
        "preview": whole[:_PREVIEW_CHARS],
        "total_chars": len(whole),
        "total_bytes": len(whole.encode(errors="replace")),
        "read": {"tool": "read_record_field", "field_path": name},
    }


def _shrink_evidence(item: dict[str, Any], *, most: int) -> None:
    excerpts = item.get("evidence_excerpts")
    if isinstance(excerpts, list) and len(excerpts) > 1 and size(item) > most:
        item["evidence_excerpts"] = excerpts[:1]
        item["evidence_excerpts_left_out"] = len(excerpts) - 1
    if "evidence_excerpts" in item and size(item) > most:
        item |= {name: _clipped(value) for name, value in item.items()} | {"cut": True}


def _clipped(value: Any) -> Any:
    """The value with its long strings cut, as its `cut` mark says."""
    if isinstance(value, str):
        return clipped(value, _WORTH_CUTTING)
    if isinstance(value, dict):
        return {name: _clipped(inner) for name, inner in value.items()}
    return [_clipped(inner) for inner in value] if isinstance(value, list) else value


def shrunk_groups(body: dict[str, Any]) -> dict[str, Any]:
    """An aggregate with a quarter of its groups fewer, the missing ones counted."""
    groups = body["groups"]
    kept = len(groups) * 3 // 4
    left_out = body.get("groups_left_out", 0) + len(groups) - kept
    return {**body, "groups": groups[:kept], "groups_left_out": left_out}
