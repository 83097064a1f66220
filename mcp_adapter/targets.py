"""The records, streams and blobs that the arguments of a tool name."""

from typing import Any

from evidence import record_ids
from mcp_adapter.arguments import Arguments
from mcp_adapter.errors import AdapterError


class InvalidId(AdapterError):  # noqa: N818 - named like the exceptions of the REST API
    """The id or URI is not valid."""

    def __init__(self, message: str, *, param: str = "id") -> None:
        super().__init__(
            "invalid_id",
            message,
            param=param,
            next_step="Pass an id exactly as search or query_records shows it: "
            "connection_id/stream:record_id.",
        )


def parse_uri(uri: str, *, param: str = "id") -> record_ids.ParsedUri:
    """Parse a pdpp:// URI. Raises InvalidId naming `param`."""
    try:
        return record_ids.parse_uri(uri)
    except ValueError as error:
        raise InvalidId(str(error), param=param) from None


def resolve_stream(arguments: Arguments) -> Arguments:
    """Return the arguments with a `pdpp://stream/…` URI replaced by its stream and connection."""
    uri = parse_uri(arguments["stream"], param="stream")
    if uri.kind != "stream":
        raise InvalidId("Pass a stream name or a pdpp://stream URI.", param="stream")
    named = _add_connection(record_ids.RecordRef(uri.connection_id, uri.name, ""), arguments)
    connection = {} if named.connection_id is None else {"connection_id": named.connection_id}
    return {**arguments, "stream": uri.name, **connection}


def parse_record(arguments: Arguments) -> record_ids.RecordRef:
    """Return the record that `id` names, with `connection_id` added to a legacy id.

    Raises InvalidId, or AdapterError if the id and `connection_id` name different connections.
    """
    try:
        ref = record_ids.parse_id(arguments["id"])
    except ValueError as error:
        raise InvalidId(str(error)) from None
    return _add_connection(ref, arguments)


def _add_connection(ref: record_ids.RecordRef, arguments: Arguments) -> record_ids.RecordRef:
    connection_id = arguments.get("connection_id")
    if connection_id is None:
        return ref
    if ref.connection_id is not None and ref.connection_id != connection_id:
        raise AdapterError(
            "conflicting_connection_id",
            "The id names one connection and connection_id another.",
            param="connection_id",
            next_step="Call again with the id alone, exactly as it was shown.",
        )
    return record_ids.RecordRef(connection_id, ref.stream, ref.record_id)


def parse_target(arguments: Arguments) -> record_ids.ParsedUri:
    """Return what read_record_field reads, from an id or URI, or from stream and record_id."""
    parts = [name for name in ("stream", "record_id") if name in arguments]
    if "id" in arguments and not parts:
        return _parse_target_id(arguments)
    if "id" not in arguments and len(parts) == 2:
        return _record_target(
            record_ids.RecordRef(
                arguments.get("connection_id"), arguments["stream"], arguments["record_id"]
            )
        )
    raise AdapterError(
        "invalid_record_selector",
        "Name the record either by id, or by stream and record_id.",
        param="id",
        next_step="Call read_record_field again with id and field_path alone.",
    )


def _parse_target_id(arguments: Arguments) -> record_ids.ParsedUri:
    if not arguments["id"].startswith("pdpp://"):
        return _record_target(parse_record(arguments))
    uri = parse_uri(arguments["id"])
    if uri.kind == "stream":
        raise InvalidId("A pdpp://stream URI names no record: pass it to query_records.")
    record = _add_connection(uri.record, arguments) if uri.record else None
    connection_id = (
        record.connection_id if record else arguments.get("connection_id", uri.connection_id)
    )
    return record_ids.ParsedUri(uri.kind, record, uri.name, connection_id, uri.window)


def _record_target(ref: record_ids.RecordRef) -> record_ids.ParsedUri:
    return record_ids.ParsedUri("record", ref, "", ref.connection_id, {})


def resolve_record(ref: record_ids.RecordRef, body: dict[str, Any]) -> record_ids.RecordRef:
    """Return the record with the connection under which REST found it."""
    return record_ids.RecordRef(
        body.get("connection_id", ref.connection_id), ref.stream, ref.record_id
    )


def referenced_blob_id(value: Any) -> str | None:
    """Return the blob id of a `blob_ref` value, or None for any other value."""
    blob_id = value.get("blob_id") if isinstance(value, dict) else None
    return blob_id if isinstance(blob_id, str) and blob_id else None
