"""The text of a page of records or changes."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from mcp_adapter import ids, labels
from mcp_adapter.text.fitting import BAREST, Preview, expanded, mix, omissions, roomiest, shown_id


def render(structured: dict[str, Any], *, most: int) -> str:
    """Every record of the page with its handle and as much of its fields as there is room for."""
    envelope = structured["data"]
    pairs = zip(structured["handles"], envelope["data"], strict=True)
    records = [_drawing(handle, record) for handle, record in pairs]
    page, sources = _page(envelope), _sources(envelope["data"])

    def draw(room: int) -> dict[str, Any]:
        drawn = [record(max(room, 0)) for record in records]
        if room == BAREST:
            return {**page, "records": drawn, "read": structured["next"]["read"]}
        return {**page, "records": drawn, **sources, **structured["next"]}

    return roomiest(draw, items=len(records), most=most)


def _drawing(handle: str, record: dict[str, Any]) -> Callable[[int], dict[str, Any]]:
    """How to draw a record with any room; what does not depend on it is done once."""
    head = shown_id(handle)
    connection = record.get("connection_id")
    if connection and not ids.names_connection(handle, connection):
        head["connection_id"] = connection
    if record.get("deleted"):
        tombstone = {**head, "deleted": True, "deleted_at": record.get("deleted_at")}
        return lambda _room: tombstone
    head |= omissions(record)
    shown = Preview(record.get("data", {}))
    if "expanded" not in record:
        return lambda room: head | shown.within(room)
    return lambda room: {**head, **shown.within(room), **expanded(record, room=room)}


def _page(envelope: dict[str, Any]) -> dict[str, Any]:
    page: dict[str, Any] = {"has_more": envelope.get("has_more", False)}
    for name in ("next_cursor", "next_changes_since"):
        if envelope.get(name):
            page[name] = envelope[name]
    meta = envelope.get("meta", {})
    if meta.get("count", {}).get("kind", "none") != "none":
        page["count"] = meta["count"]
    if meta.get("warnings"):
        page["warnings"] = meta["warnings"]
    return page


def _sources(records: list[dict[str, Any]]) -> dict[str, Any]:
    counts = Counter((str(each.get("connection_id")), labels.source(each)) for each in records)
    return mix(
        (
            ({"connection_id": connection, "source": source}, number)
            for (connection, source), number in counts.most_common()
        ),
        unit="records",
    )
