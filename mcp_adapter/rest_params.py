"""Arguments that several tools share, the records that they name, and their REST parameters."""

from typing import Any

from evidence import limits, record_ids
from mcp_adapter.arguments import Argument, Arguments, integer, object_, string, string_list
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
    if not str(arguments.get("stream", "")).startswith("pdpp:"):
        return arguments
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


def connection_params(connection_id: str | None) -> list[tuple[str, str]]:
    """Return the REST parameter for a connection, if there is one."""
    return [] if connection_id is None else [("connection_id", connection_id)]


def resolve_record(ref: record_ids.RecordRef, body: dict[str, Any]) -> record_ids.RecordRef:
    """Return the record with the connection under which REST found it."""
    return record_ids.RecordRef(
        body.get("connection_id", ref.connection_id), ref.stream, ref.record_id
    )


_OPERATORS = ("gte", "gt", "lte", "lt", "ne", "in", "contains", "words")
_LISTS = ("ne", "in")
_SCALARS = (str, int, float, bool)

CONNECTION_ID = string("connection_id", "From schema", max_length=200)
STREAM = string("stream", "From schema", required=True)
FIELDS = string_list("fields", "Only these fields", max_items=limits.QUERY_ARRAY_MAX)
CURSOR = string("cursor")
AFTER = string("after")
BEFORE = string("before")


def limit_argument(description: str) -> Argument:
    """Define the page size argument; the description states its bounds."""
    return integer("limit", description, minimum=1, maximum=limits.PAGE_MAX)


def _parse_filter(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise _invalid_filter("Filter must be an object with at least one field.")
    conditions = {
        field: {"in": condition} if isinstance(condition, list) else condition
        for field, condition in value.items()
    }
    for field, condition in conditions.items():
        if "[" in field or "]" in field or not field:
            raise _invalid_filter("Filter keys are plain field names, without brackets.")
        if isinstance(condition, dict):
            _check_range(condition)
        elif not isinstance(condition, _SCALARS):
            raise _invalid_filter(
                "A filter value is a string, number or boolean, a list of these, or a range."
            )
    return conditions


def _check_range(bounds: dict[str, Any]) -> None:
    if not bounds or not all(operator in _OPERATORS for operator in bounds):
        raise _invalid_filter(f"A condition uses only {', '.join(_OPERATORS)}.")
    values = [
        each
        for operator, bound in bounds.items()
        for each in (bound if operator in _LISTS and isinstance(bound, list) else [bound])
    ]
    if [] in bounds.values() or not all(isinstance(value, _SCALARS) for value in values):
        raise _invalid_filter(
            "The values of a condition are strings, numbers or booleans; ne and in also take lists."
        )


def _invalid_filter(message: str) -> AdapterError:
    return AdapterError(
        "invalid_filter",
        message,
        param="filter",
        next_step='Pass filter as {"field": value} or {"field": {"gte": value}}; '
        "schema(stream) lists what can be filtered.",
    )


def _parse_expand_limit(value: Any) -> dict[str, int]:
    if (
        not isinstance(value, dict)
        or not value
        or any("[" in name or not name for name in value)
        or any(type(count) is not int or count < 1 for count in value.values())
    ):
        raise AdapterError(
            "invalid_expand",
            "expand_limit must be an object of relation names and whole numbers from 1.",
            param="expand_limit",
            next_step='Pass expand_limit as {"relation": 5}; schema(stream) lists the relations.',
        )
    return value


FILTER = object_(
    "filter",
    "{field: v; [v]; {gte|gt|lte|lt|ne|contains|words: v}}",
    parse=_parse_filter,
)
EXPAND = string_list("expand", "Relations to include")
EXPAND_LIMIT = object_("expand_limit", "{relation: count}", parse=_parse_expand_limit)


def stream_path(name: str) -> str:
    """Return `/v1/streams/{stream}`."""
    return f"/v1/streams/{record_ids.path_segment(name)}"


def record_path(ref: record_ids.RecordRef) -> str:
    """Return `/v1/streams/{stream}/records/{record_id}`."""
    return f"{stream_path(ref.stream)}/records/{record_ids.path_segment(ref.record_id)}"


def query_params(arguments: Arguments, *names: str) -> list[tuple[str, str]]:
    """Return the REST parameters of those named arguments that were given."""
    return [pair for name in names if name in arguments for pair in _pairs(name, arguments[name])]


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    if name == "streams":
        return [("streams[]", stream) for stream in value]
    if isinstance(value, list):
        return [(name, ",".join(value))]
    if not isinstance(value, dict):
        return [(name, _scalar(value))]
    pairs = []
    for key, member in value.items():
        if isinstance(member, dict):
            for operator, bound in member.items():
                values = bound if isinstance(bound, list) else [bound]
                pairs += [(f"{name}[{key}][{operator}]", _scalar(value)) for value in values]
        else:
            pairs.append((f"{name}[{key}]", _scalar(member)))
    return pairs


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def referenced_blob_id(value: Any) -> str | None:
    """Return the blob id of a `blob_ref` value, or None for any other value."""
    blob_id = value.get("blob_id") if isinstance(value, dict) else None
    return blob_id if isinstance(blob_id, str) and blob_id else None
