"""Arguments that several tools share, and how they become REST parameters."""

from typing import Any

from evidence import limits
from mcp_adapter import arguments, ids
from mcp_adapter.errors import AdapterError
from mcp_adapter.rest import RestAnswer, segment
from mcp_adapter.tool import Call

_OPERATORS = ("gte", "gt", "lte", "lt")
_SCALARS = (str, int, float, bool)

CONNECTION_ID = arguments.text("connection_id", "Connection id from schema", longest=200)
STREAM = arguments.text("stream", "Stream name from schema", required=True)
FIELDS = arguments.names("fields", "Only these fields", most=limits.QUERY_ARRAY_MAX)
CURSOR = arguments.text("cursor", "next_cursor of the page before")


def limit(says: str, *, most: int = limits.PAGE_MAX) -> arguments.Argument:
    """A page size; the words give the bounds."""
    return arguments.whole("limit", says, least=1, most=most)


def _filter(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise _invalid_filter("filter must be an object with at least one field")
    for field, wanted in value.items():
        if "[" in field or "]" in field or not field:
            raise _invalid_filter("filter keys are plain field names, without brackets")
        if isinstance(wanted, dict):
            _range(wanted)
        elif not isinstance(wanted, _SCALARS):
            raise _invalid_filter("a filter value is a string, number or boolean, or a range")
    return value


def _range(wanted: dict[str, Any]) -> None:
    if not wanted or not all(operator in _OPERATORS for operator in wanted):
        raise _invalid_filter(f"a range uses only {', '.join(_OPERATORS)}")
    if not all(isinstance(bound, _SCALARS) for bound in wanted.values()):
        raise _invalid_filter("the bounds of a range are strings, numbers or booleans")


def _invalid_filter(reason: str) -> AdapterError:
    return AdapterError(
        "invalid_filter",
        f"{reason[0].upper()}{reason[1:]}.",
        param="filter",
        next_step='Pass filter as {"field": value} or {"field": {"gte": value}}; '
        "schema(stream) lists what can be filtered.",
    )


def _expand_limit(value: Any) -> dict[str, int]:
    if (
        not isinstance(value, dict)
        or not value
        or any("[" in name or not name for name in value)
        or any(type(most) is not int or most < 1 for most in value.values())
    ):
        raise AdapterError(
            "invalid_expand",
            "expand_limit must be an object of relation names and whole numbers from 1.",
            param="expand_limit",
            next_step='Pass expand_limit as {"relation": 5}; schema(stream) lists the relations.',
        )
    return value


FILTER = arguments.members(
    "filter", "{field: value} or {field: {gte|gt|lte|lt: value}}", accepts=_filter
)
EXPAND = arguments.names("expand", "Relations to include")
EXPAND_LIMIT = arguments.members("expand_limit", "{relation: count}", accepts=_expand_limit)


def stream_name(given: arguments.Given) -> str:
    """The stream argument, which may be a `pdpp://stream/…` URI."""
    name: str = given["stream"]
    return ids.parse_uri(name, param="stream").name or name if name.startswith("pdpp:") else name


def stream_path(name: str) -> str:
    """`/v1/streams/{name}`."""
    return f"/v1/streams/{segment(name)}"


def record_path(ref: ids.RecordRef) -> str:
    """`/v1/streams/{stream}/records/{record_id}`."""
    return f"{stream_path(ref.stream)}/records/{segment(ref.record_id)}"


def params(given: arguments.Given, *names: str) -> list[tuple[str, str]]:
    """REST parameters of the named arguments that were given, in the order named."""
    pairs: list[tuple[str, str]] = []
    for name in names:
        if name in given:
            pairs += _pairs(name, given[name])
    return pairs


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    if name == "streams":
        return [("streams[]", stream) for stream in value]
    if isinstance(value, list):
        return [(name, ",".join(value))]
    if not isinstance(value, dict):
        return [(name, _scalar(value))]
    pairs = []
    for key, inner in value.items():
        if isinstance(inner, dict):
            pairs += [(f"{name}[{key}][{op}]", _scalar(bound)) for op, bound in inner.items()]
        else:
            pairs.append((f"{name}[{key}]", _scalar(inner)))
    return pairs


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def gate(call: Call, *, stream: str, connection_id: str | None) -> None:
    """Refuse `expand` and `expand_limit` on a stream whose schema advertises no relation.

    Nothing is remembered between calls, so a changed declaration holds on the next one. Where the
    schema cannot be read or does not know the stream, the resource server decides (D9).
    """
    if "expand" not in call.given and "expand_limit" not in call.given:
        return
    params = [("view", "compact"), ("stream", stream)]
    if connection_id is not None:
        params.append(("connection_id", connection_id))
    rows = _rows(call.ask("/v1/schema", params), stream)
    if rows and not any(row.get("expand_capabilities") for row in rows):
        raise AdapterError(
            "invalid_expand",
            f"Stream {stream} advertises no relation to expand "
            "(expand_capabilities of GET /v1/schema).",
            param="expand" if "expand" in call.given else "expand_limit",
            next_step=f"Call again without expand; schema(stream={stream!r}) shows "
            "expand_capabilities.",
        )


def _rows(answer: RestAnswer, stream: str) -> list[dict[str, Any]]:
    if answer.status != 200 or isinstance(answer.body, bytes):
        return []
    return [
        row
        for connector in answer.body.get("connectors", [])
        for row in connector.get("streams", [])
        if row.get("name") == stream
    ]
