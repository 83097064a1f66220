"""Render a page of records or changes as text."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from evidence import record_ids
from mcp_adapter import labels
from mcp_adapter.text.fitting import (
    HANDLE_ONLY,
    Preview,
    count_by_source,
    expanded_records,
    fit_items,
    id_members,
    omitted_fields,
)


def render(structured: dict[str, Any], *, max_bytes: int) -> str:
    """Return every record of the page with its handle and as much of its fields as fits."""
    envelope = structured["data"]
    pairs = zip(structured["handles"], envelope["data"], strict=True)
    renderers = [_record_renderer(handle, record) for handle, record in pairs]
    page, sources = _page(envelope), _sources(envelope["data"])

    def render_page(max_chars: int) -> dict[str, Any]:
        records = [render_record(max(max_chars, 0)) for render_record in renderers]
        if max_chars == HANDLE_ONLY:
            return {**page, "records": records, "read": structured["next"]["read"]}
        return {**page, "records": records, **sources, **structured["next"]}

    return fit_items(render_page, items=len(renderers), max_bytes=max_bytes)


def _record_renderer(handle: str, record: dict[str, Any]) -> Callable[[int], dict[str, Any]]:
    """Return a renderer of the record that takes a number of characters."""
    head = id_members(handle)
    connection = record.get("connection_id")
    if connection and not record_ids.includes_connection(handle, connection):
        head["connection_id"] = connection
    if record.get("deleted"):
        tombstone = {**head, "deleted": True, "deleted_at": record.get("deleted_at")}
        return lambda _max_chars: tombstone
    head |= omitted_fields(record)
    if record.get("money"):
        head["money"] = record["money"]
    preview = Preview(record.get("data", {}))
    return lambda max_chars: {
        **head,
        **preview.fit(max_chars),
        **expanded_records(record, max_chars=max_chars),
    }


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
    counts = Counter(
        (str(record.get("connection_id")), labels.source(record)) for record in records
    )
    return count_by_source(
        (
            ({"connection_id": connection, "source": source}, count)
            for (connection, source), count in counts.most_common()
        ),
        unit="records",
    )
