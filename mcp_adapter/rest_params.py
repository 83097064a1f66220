"""Arguments that several tools share, their conversion to REST parameters, and the `expand` check."""

from typing import Any

from evidence import limits, record_ids
from evidence.item_lines import target_arguments as target_arguments
from mcp_adapter import record_refs
from mcp_adapter.arguments import Argument, Arguments, integer, object_, string, string_list
from mcp_adapter.errors import AdapterError
from mcp_adapter.rest import RestResponse
from mcp_adapter.tool import Call

_OPERATORS = ("gte", "gt", "lte", "lt", "ne", "contains", "words")
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
    for field, condition in value.items():
        if "[" in field or "]" in field or not field:
            raise _invalid_filter("Filter keys are plain field names, without brackets.")
        if isinstance(condition, dict):
            _check_range(condition)
        elif not isinstance(condition, _SCALARS):
            raise _invalid_filter("A filter value is a string, number or boolean, or a range.")
    return value


def _check_range(bounds: dict[str, Any]) -> None:
    if not bounds or not all(operator in _OPERATORS for operator in bounds):
        raise _invalid_filter(f"A condition uses only {', '.join(_OPERATORS)}.")
    values = [
        each
        for operator, bound in bounds.items()
        for each in (bound if operator == "ne" and isinstance(bound, list) else [bound])
    ]
    if not all(isinstance(value, _SCALARS) for value in values):
        raise _invalid_filter(
            "The values of a condition are strings, numbers or booleans; ne also takes a list."
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
    "{field: v or {gte|gt|lte|lt|ne|contains|words: v}}",
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


def require_expandable(call: Call, *, stream: str, connection_id: str | None) -> None:
    """Raise AdapterError if the call expands a stream whose schema advertises no relation.

    The schema is read on every such call, so a changed declaration applies at once. If it cannot be
    read or does not contain the stream, REST decides.
    """
    if "expand" not in call.arguments and "expand_limit" not in call.arguments:
        return
    params = [
        ("view", "compact"),
        ("stream", stream),
        *record_refs.connection_params(connection_id),
    ]
    rows = _stream_rows(call.get("/v1/schema", params), stream)
    if rows and not any(row.get("expand_capabilities") for row in rows):
        named = ", ".join(call.arguments.get("expand") or call.arguments["expand_limit"])
        raise AdapterError(
            "invalid_expand",
            f"{named[:200]!r} cannot be expanded: stream {stream} advertises no relation "
            "(expand_capabilities of GET /v1/schema).",
            param="expand" if "expand" in call.arguments else "expand_limit",
            next_step=f"Call again without expand; schema(stream={stream!r}) shows "
            "expand_capabilities.",
        )


def _stream_rows(response: RestResponse, stream: str) -> list[dict[str, Any]]:
    if response.status != 200 or isinstance(response.body, bytes):
        return []
    return [
        row
        for connector in response.body.get("connectors", [])
        for row in connector.get("streams", [])
        if row.get("name") == stream
    ]
