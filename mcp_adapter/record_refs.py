"""Which record a call means: by id, by URI, or by its parts."""

from typing import Any

from mcp_adapter import arguments, ids
from mcp_adapter.errors import AdapterError


def record_of(given: arguments.Given) -> ids.RecordRef:
    """The record named by `id`, with the connection that the call adds to a legacy id."""
    return _scoped(ids.parse(given["id"]), given)


def _scoped(ref: ids.RecordRef, given: arguments.Given) -> ids.RecordRef:
    """The two ways to name a connection agree, or neither is preferred (A4)."""
    named = given.get("connection_id")
    if named is None:
        return ref
    if ref.connection_id is not None and ref.connection_id != named:
        raise AdapterError(
            "conflicting_connection_id",
            "The id names one connection and connection_id another.",
            param="connection_id",
            next_step="Call again with the id alone, exactly as it was shown.",
        )
    return ids.RecordRef(named, ref.stream, ref.record_id)


def uri_of(given: arguments.Given) -> ids.Uri:
    """The target of read_record_field: an id or URI, or stream and record_id."""
    parts = [name for name in ("stream", "record_id") if name in given]
    if "id" in given and not parts:
        return _from_id(given)
    if "id" not in given and len(parts) == 2:
        ref = ids.RecordRef(given.get("connection_id"), given["stream"], given["record_id"])
        return ids.Uri("record", ref, "", ref.connection_id, {})
    raise AdapterError(
        "invalid_record_selector",
        "Name the record either by id, or by stream and record_id.",
        param="id",
        next_step="Call read_record_field again with id and field_path alone.",
    )


def _from_id(given: arguments.Given) -> ids.Uri:
    text = given["id"]
    if not text.startswith("pdpp://"):
        ref = record_of(given)
        return ids.Uri("record", ref, "", ref.connection_id, {})
    uri = ids.parse_uri(text)
    if uri.kind == "stream":
        raise ids.InvalidId("A pdpp://stream URI names no record: pass it to query_records.")
    record = _scoped(uri.record, given) if uri.record else None
    connection = record.connection_id if record else given.get("connection_id", uri.connection_id)
    return ids.Uri(uri.kind, record, uri.name, connection, uri.window)


def connection_params(connection_id: str | None) -> list[tuple[str, str]]:
    """The canonical `connection_id` parameter, never invented and never rewritten."""
    return [] if connection_id is None else [("connection_id", connection_id)]


def resolved(ref: ids.RecordRef, body: dict[str, Any]) -> ids.RecordRef:
    """The record with the connection that the resource server found it under."""
    return ids.RecordRef(body.get("connection_id", ref.connection_id), ref.stream, ref.record_id)
