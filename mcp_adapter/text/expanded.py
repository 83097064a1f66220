"""Expanded relations: the handles of the children, and what of them there is room for."""

from typing import Any

from mcp_adapter import ids
from mcp_adapter.text.fitting import preview


def expanded(record: dict[str, Any], *, room: int) -> dict[str, Any]:
    """`{"expanded": {relation: …}}`, or nothing where the record was not expanded."""
    relations = record.get("expanded")
    if not isinstance(relations, dict):
        return {}
    return {"expanded": {name: _children(found, room) for name, found in relations.items()}}


def _children(found: Any, room: int) -> dict[str, Any] | None:
    if not isinstance(found, dict):
        return None
    if found.get("object") != "list":
        return _child(found, room)
    share = room // max(len(found["data"]), 1)
    shown = [_child(child, share) for child in found["data"]]
    return {"records": shown, "has_more": found.get("has_more", False)}


def _child(record: dict[str, Any], room: int) -> dict[str, Any]:
    ref = ids.RecordRef(
        record.get("connection_id"), str(record.get("stream", "")), str(record.get("id", ""))
    )
    return {"id": ids.handle(ref), **preview(record.get("data") or {}, room=room)}
