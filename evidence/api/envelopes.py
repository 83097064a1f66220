"""Envelopes: plain functions from what readers return to the JSON of contract 2 and 3.

Nothing here decides what may be seen; it only words what it is given.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.api.query_parameters import Notice
from evidence.declarations.authorship import origin
from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.reading.changes import Tombstone
from evidence.reading.field_windows import FieldWindow, Verdict
from evidence.reading.schema import StreamRow
from evidence.search.query_planner import is_stale, searchable_fields

Json = dict[str, Any]


def instant(at: datetime | None) -> str | None:
    """UTC with a Z, microseconds only when there are any."""
    if at is None:
        return None
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def finished(
    body: Json,
    *,
    self_link: str,
    warnings: Sequence[Notice] = (),
    count: Json | None = None,
    next_link: str | None = None,
    meta: Json | None = None,
) -> Json:
    """``links`` and ``meta`` of contract 3.0; ``links.next`` only where the body can go on."""
    links: Json = {"self": self_link}
    if "has_more" in body:
        links["next"] = next_link
    about: Json = {
        "count": count or {"kind": "none"},
        "warnings": [notice(each) for each in warnings],
    }
    return body | {"links": links, "meta": about | (meta or {})}


def notice(warning: Notice) -> Json:
    body: Json = {"code": warning.code, "message": warning.message, "param": warning.param}
    return body | ({"detail": dict(warning.detail)} if warning.detail else {})


def source_labels(visible: VisibleRecords, told: VisibleRecord | Tombstone) -> Json:
    """Which connection a record came through."""
    return {
        "connection_id": told.connection.connection_id,
        "connector_instance_id": told.connection.connection_id,
        "connector_key": visible.source.connector_key,
        "display_name": told.connection.display_name,
    }


def record(visible: VisibleRecords, shown: VisibleRecord, data: Mapping[str, Any]) -> Json:
    """A record with ``data`` as projected; blobs get the address they are read from."""
    return {
        "object": "record",
        "id": shown.record_key,
        "stream": visible.stream.name,
        **source_labels(visible, shown),
        "emitted_at": instant(shown.emitted_at),
        "version": shown.version,
        "origin": origin_of(visible, shown),
        "data": with_blob_address(data, shown.connection.connection_id),
    }


def origin_of(visible: VisibleRecords, shown: VisibleRecord) -> str:
    """Who wrote it, as far as what the grant shows can tell."""
    return origin(
        shown.data, roles=visible.stream.authorship, identities=shown.connection.identities
    )


def tombstone(visible: VisibleRecords, gone: Tombstone) -> Json:
    """A record that is not there any more, in a feed of changes."""
    return {
        "object": "record",
        "id": gone.record_key,
        "stream": visible.stream.name,
        **source_labels(visible, gone),
        "deleted": True,
        "deleted_at": instant(gone.gone_at),
        "emitted_at": instant(gone.gone_at),
    }


def with_blob_address(data: Mapping[str, Any], connection_id: str) -> Json:
    reference = data.get(BLOB_REFERENCE)
    if not isinstance(reference, dict) or not isinstance(reference.get("blob_id"), str):
        return dict(data)
    address = blob_address(reference["blob_id"], connection_id)
    return {**data, BLOB_REFERENCE: {**reference, "fetch_url": address}}


def blob_address(blob_id: str, connection_id: str) -> str:
    """Where a blob is read from."""
    return f"/v1/blobs/{quote(blob_id, safe='')}?connection_id={connection_id}"


def record_route(stream: str, record_key: str) -> str:
    """The path of one record; keys may hold anything but control characters."""
    return f"/v1/streams/{quote(stream, safe='')}/records/{quote(record_key, safe='')}"


def window_read(stream: str, record_key: str, field: str, connection_id: str) -> Json:
    """How to read on: the arguments of the bounded field read."""
    return {
        "object": "field_window_read",
        "method": "GET",
        "route": f"{record_route(stream, record_key)}/field-window",
        "stream": stream,
        "record_id": record_key,
        "field": field,
        "connection_id": connection_id,
    }


def field_window(
    visible: VisibleRecords, window: FieldWindow, *, record_key: str, path: str, url: str
) -> Json:
    """Contract 3.6, and whose record it is; a value that is no text says what it is."""
    shown: Json = {
        "text": window.text,
        "start_chars": window.start_chars,
        "end_chars": window.end_chars,
        "limit_chars": window.limit_chars,
        "total_chars": window.total_chars,
        "complete": window.complete,
        "has_more": window.next_offset_chars is not None,
        "next_offset_chars": window.next_offset_chars,
        "previous_offset_chars": window.previous_offset_chars,
    }
    if window.match is not None:
        shown["match_start_chars"], shown["match_end_chars"] = window.match
    field: Json = {"path": path, "type": window.json_type, "size_bytes": window.size_bytes}
    if window.json_type != "string":
        field["media_type"] = "application/json"
    if window.blob_id is not None:
        field["blob"] = {
            "blob_id": window.blob_id,
            "fetch_url": blob_address(window.blob_id, window.connection_id),
        }
    body: Json = {
        "object": "field_window",
        "stream": visible.stream.name,
        "record_id": record_key,
        "connection_id": window.connection_id,
        "connector_key": visible.source.connector_key,
        "origin": window.origin,
        "field": field,
        "window": shown,
        "url": url,
    }
    return body | ({} if window.verdict is None else {"verification": verification(window.verdict)})


def verification(verdict: Verdict) -> Json:
    """What became of a quote."""
    body: Json = {"status": verdict.status, "field_sha256": verdict.field_sha256}
    if verdict.found_at is not None:
        body["found_at_chars"] = verdict.found_at
    if verdict.field_changed is not None:
        body["field_changed"] = verdict.field_changed
    return body


def stream(row: StreamRow) -> Json:
    """One row of ``GET /v1/streams``."""
    body: Json = {
        "object": "stream",
        "name": row.visible.stream.name,
        "connection_id": row.connection.connection_id,
        "connector_instance_id": row.connection.connection_id,
        "connector_key": row.visible.source.connector_key,
        "connector_id": row.visible.source.connector_key,
        "display_name": row.connection.display_name,
        "source": {"kind": row.visible.source.kind, "id": row.visible.source.source_id},
    }
    if row.record_count is not None:
        body["record_count"] = row.record_count
    if row.latest_at is not None:
        body["last_updated"] = instant(row.latest_at)
    status = "unknown" if row.latest_at is None else "current"
    freshness = {"status": status, "captured_at": instant(row.latest_at)}
    return body | {"freshness": freshness | maintenance(row.visible, [row.connection])}


def maintenance(visible: VisibleRecords, connections: Iterable[ConnectionFacts]) -> Json:
    """Says of a stream that can be searched that its index is being made anew."""
    reindexing = any(is_stale(facts) for facts in connections)
    return {"index_maintenance": True} if reindexing and searchable_fields(visible) else {}
