"""Define a tool: its arguments, the records they name, a call, its result, and the byte budget of both channels.

MCP hosts pass on types, enums and descriptions but drop bounds, so descriptions state every bound in
words. An unknown argument is refused with the nearest valid name. A null and an empty filter count as
not given, because some hosts send every optional argument.

All sizes are UTF-8 bytes as serialized in the response. REST cuts pages to fit a budget;
`evidence.page_cutter` decides what is cut.
"""

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, cached_property
from typing import Annotated, Any, TypeAlias, get_args

from pydantic import Field, create_model

from evidence import limits, record_ids
from evidence.item_lines import describe_read
from evidence.page_cutter import (
    dumps,
    json_size,
    largest_that_fits,
    shrink_hit,
    shrink_record,
    wire_size,
)
from evidence.parameters import NameList, ParameterError, Parameters, ShortText, shown
from evidence.record_ids import RecordRef, path_segment
from mcp_adapter.rest import NO_HEADERS, Params, Rest, RestResponse

_CONNECT_AGAIN = (
    "Ask the owner to connect this app again; where it runs pdpp mcp, with pdpp connect."
)
_NEXT_STEPS = {
    "ambiguous_connection": "Call again with connection_id set to one of available_connections; "
    "schema lists all of them.",
    "ambiguous_schema_detail": "Call schema(stream, connection_id, detail='full') with one of "
    "available_connections.",
    "connection_not_found": "Call schema for the connection ids this grant covers.",
    "cursor_expired": "Call again without cursor, or with changes_since='beginning'.",
    "field_not_found": "Call schema(stream) for the field names, or fetch the record.",
    "field_not_granted": "Call schema(stream) and use only the fields it lists.",
    "field_not_text": "Call fetch with fields set to this field.",
    "grant_consumed": _CONNECT_AGAIN,
    "grant_expired": _CONNECT_AGAIN,
    "grant_paused": "Ask the owner to resume this app; then call again.",
    "grant_revoked": _CONNECT_AGAIN,
    "grant_stream_not_allowed": "Call schema for the streams this grant covers.",
    "invalid_cursor": "Call again without cursor to start from the first page.",
    "invalid_expand": "Call schema(stream) for the relations that can be expanded.",
    "invalid_sort": "Call schema(stream) for the fields that can be sorted by.",
    "not_found": "Call search or query_records for current ids, or schema for stream names.",
    "query_not_found": "Call read_record_field without q to read from the start.",
    "unknown_field": "Call schema(stream) for the field names.",
}
_DEFAULT_NEXT_STEP = (
    "Call schema to see what this grant allows, then call again with other arguments."
)


class ToolError(Exception):
    """A failed tool call; `body` is the content of both channels."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        super().__init__(str(body["error"].get("code")))


class AdapterError(ToolError):
    """An error of the adapter itself. Never quote record text or a credential in it."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        next_step: str,
        param: str | None = None,
        **members: Any,
    ) -> None:
        error = {"type": "adapter_error", "code": code, "message": message}
        if param is not None:
            error["param"] = param
        super().__init__({"error": {**error, "next_step": next_step, **members}})


def error_from_response(response: RestResponse, *, next_step: str | None = None) -> ToolError:
    """Build the tool error of a REST error response.

    REST's texts name routes and query parameters: they are put in terms of tools, except in
    `invalid_expand`, which names GET /v1/schema. A next step is added where one is known.
    """
    error = response.body.get("error") if isinstance(response.body, dict) else None
    if not isinstance(error, dict):
        error = {
            "type": "rs_error",
            "code": f"http_{response.status}",
            "message": f"The resource server answered {response.status} without a readable error.",
        }
    if error.get("code") != "invalid_expand":
        error = {name: _in_tool_terms(value) for name, value in error.items()}
    known_step = None if "ask_url" in error else _NEXT_STEPS.get(str(error.get("code")))
    step = next_step or known_step
    if step is None and "next_step" in error:
        return ToolError({"error": error})
    return ToolError({"error": error, "next_step": step or _DEFAULT_NEXT_STEP})


_SCHEMA_OF_STREAM = re.compile(r"GET /v1/schema\?stream=([^\s&]+)(?:&\S+)?")
_ARRAY_PARAMETER = re.compile(r"\b(streams|fields)\[\](?:=\w+)?")


def _in_tool_terms(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = _SCHEMA_OF_STREAM.sub(r"schema(stream=\1)", value)
    return _ARRAY_PARAMETER.sub(r"\1", text.replace("GET /v1/schema", "schema"))


Arguments: TypeAlias = Mapping[str, Any]
"""Validated arguments by name, without those that were not given."""


def own_text(name: str, description: str = "", *, required: bool = False) -> tuple[str, Any]:
    """Return an argument of a tool's own, a text of 1 to 4,000 characters."""
    kind: Any = ShortText if required else ShortText | None
    return name, Annotated[kind, Field(description=description or None)]


STREAM = own_text("stream", "From schema", required=True)


class ToolArguments(Parameters):
    """The arguments of a tool."""

    @classmethod
    @cache
    def input_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema that `tools/list` shows: flat, and without bounds."""
        properties = {
            name: {key: schema[key] for key in ("type", "description", "enum") if key in schema}
            | ({"items": {"type": "string"}} if schema["type"] == "array" else {})
            for name, schema in cls.schemas().items()
        }
        required = [name for name, field in cls.model_fields.items() if field.is_required()]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }


def tool_arguments(
    *arguments: str | tuple[str, Any], route: type[Parameters] = Parameters
) -> type[ToolArguments]:
    """Return the model of a tool's arguments, in this order.

    A string names a parameter of the route. A pair is an argument of the tool's own: its name and its
    type, and it is required unless the type allows None.
    """
    fields: dict[str, Any] = {}
    for argument in arguments:
        name, kind = (
            (argument, _in_tools(route, argument)) if isinstance(argument, str) else argument
        )
        is_optional = type(None) in get_args(get_args(kind)[0])
        fields[name] = (kind, None) if is_optional else kind
    return create_model("Arguments", __base__=ToolArguments, **fields)


def _in_tools(route: type[Parameters], name: str) -> Any:
    """Return the type of a parameter as tools take it: described in few words, within their bounds."""
    field, schema, tools = route.model_fields[name], route.schemas()[name], shown(route, name)
    kind: Any = tools.form
    if kind is None:
        plain = schema["type"] == "string" and "enum" not in schema
        lists = schema["type"] == "array"
        bounded: Any = Annotated[(field.annotation, *field.metadata)]
        kind = ShortText if plain else NameList if lists else bounded
    return Annotated[kind | None, Field(description=tools.tools or None, le=tools.tools_most)]


def validate(tool: str, model: type[ToolArguments], raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments to use. Raises AdapterError for the first that is unknown, missing or invalid."""
    given = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in raw.items()
        if name not in model.model_fields or (value is not None and (name, value) != ("filter", {}))
    }
    try:
        parsed = model.parse(given)
    except ParameterError as error:
        raise _refusal(tool, model, error) from None
    return {name: getattr(parsed, name) for name in given}


def _refusal(tool: str, model: type[ToolArguments], error: ParameterError) -> AdapterError:
    if error.kind == "unknown":
        return _unknown_argument(tool, error.name, known=list(model.model_fields))
    message = f"{tool}: {error.name} must be {error.expected}."
    again = f"Call {tool} again with {error.name} corrected."
    if error.name == "filter":
        next_step = f"{again} schema(stream) lists what can be filtered."
        return AdapterError("invalid_filter", message, param="filter", next_step=next_step)
    if error.name == "expand_limit":
        next_step = f"{again} schema(stream) lists the relations."
        return AdapterError("invalid_expand", message, param="expand_limit", next_step=next_step)
    return AdapterError(f"{error.kind}_argument", message, param=error.name, next_step=again)


def _unknown_argument(tool: str, name: str, *, known: list[str]) -> AdapterError:
    safe_name = name if len(name) <= 64 and name.isprintable() else "that name"
    nearest = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f" Did you mean {nearest[0]}?" if nearest else ""
    return AdapterError(
        "unknown_argument",
        f"{tool} has no argument {safe_name}.{hint}",
        param=safe_name,
        next_step=f"Call {tool} again with only these arguments: {', '.join(known)}.",
        **({"nearest": nearest[0]} if nearest else {}),
    )


def connection_params(connection_id: str | None) -> list[tuple[str, str]]:
    """Return the REST parameter for a connection, if there is one."""
    return [] if connection_id is None else [("connection_id", connection_id)]


def stream_path(name: str) -> str:
    """Return `/v1/streams/{stream}`."""
    return f"/v1/streams/{path_segment(name)}"


def record_path(ref: RecordRef) -> str:
    """Return `/v1/streams/{stream}/records/{record_id}`."""
    return f"{stream_path(ref.stream)}/records/{path_segment(ref.record_id)}"


def route_params(
    arguments: Arguments, route: type[Parameters], *, without: Container[str] = ()
) -> list[tuple[str, str]]:
    """Return the REST parameters of the arguments that are parameters of the route."""
    names = (name for name in arguments if name in route.model_fields and name not in without)
    return query_params(arguments, *names)


def query_params(arguments: Mapping[str, Any], *names: str) -> list[tuple[str, str]]:
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
        if isinstance(member, (dict, list)):
            bounds = member if isinstance(member, dict) else {"in": member}
            for operator, bound in bounds.items():
                values = bound if isinstance(bound, list) else [bound]
                pairs += [(f"{name}[{key}][{operator}]", _scalar(value)) for value in values]
        else:
            pairs.append((f"{name}[{key}]", _scalar(member)))
    return pairs


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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


Body: TypeAlias = dict[str, Any]

READ_ONLY: Mapping[str, bool] = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool: its validated arguments, and access to REST on its authority."""

    arguments: Arguments
    rest: Rest
    authority: object
    public_url: str

    def get(
        self, path: str, params: Params = (), *, headers: Mapping[str, str] = NO_HEADERS
    ) -> RestResponse:
        """Return the response to a read, with any status."""
        return self.rest.get(path, params, self.authority, headers=headers)

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> RestResponse:
        """Return the response to a write, with any status."""
        return self.rest.send(method, path, body, self.authority)

    def get_json(self, path: str, params: Params = ()) -> dict[str, Any]:
        """Return the body of a successful read. Raises ToolError for any other response."""
        return require_success(self.get(path, params))


def require_success(response: RestResponse) -> dict[str, Any]:
    """Return the body of a 200 response. Raises ToolError for any other response."""
    if response.status != 200 or isinstance(response.body, bytes):
        raise error_from_response(response)
    return response.body


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
        *connection_params(connection_id),
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


@dataclass(frozen=True)
class Result:
    """Both channels of a successful call; `text` is one JSON object."""

    structured: dict[str, Any]
    text: str

    @cached_property
    def structured_json(self) -> str:
        """The structured output as serialized in the response."""
        return dumps(self.structured)

    @cached_property
    def text_json(self) -> str:
        """The text as serialized in the response: a JSON string with its quotes."""
        return dumps(self.text)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `run` raises ToolError; `annotations` are MCP's ToolAnnotations."""

    name: str
    title: str
    description: str
    arguments: type[ToolArguments]
    run: Callable[[Call], Result]
    annotations: Mapping[str, bool] = field(default_factory=lambda: READ_ONLY)

    def listing(self) -> dict[str, Any]:
        """Return the tool as `tools/list` shows it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.arguments.input_schema(),
            "annotations": dict(self.annotations),
        }

    def __call__(
        self, raw: Mapping[str, Any], *, rest: Rest, authority: object, public_url: str
    ) -> Result:
        """Validate the arguments, then run the tool."""
        arguments: Arguments = validate(self.name, self.arguments, raw)
        if str(arguments.get("stream", "")).startswith("pdpp:"):
            arguments = resolve_stream(arguments)
        return self.run(Call(arguments, rest, authority, public_url))


@dataclass(frozen=True, slots=True)
class Budget:
    """The maximum size of each channel of a result."""

    structured: int
    text: int

    def allows(self, result: Result) -> bool:
        """Return whether both channels of the result are within the budget."""
        if len(result.text_json.encode()) > self.text:
            return False
        return len(result.structured_json.encode()) <= self.structured


PAGE_BUDGET = Budget(limits.STRUCTURED_BYTES, limits.TEXT_BYTES)
SEARCH_BUDGET = Budget(limits.SEARCH_STRUCTURED_BYTES, limits.SEARCH_TEXT_BYTES)
AGGREGATE_BUDGET = Budget(limits.STRUCTURED_BYTES, limits.AGGREGATE_TEXT_BYTES)
READ_BUDGET = Budget(limits.READ_BYTES, limits.READ_BYTES)


def max_bytes_argument(default: Budget) -> tuple[str, Any]:
    """Define `max_bytes`; the description states its unit, bounds and default."""
    size = f"{limits.MAX_BYTES_LEAST} to {limits.MAX_BYTES_MOST}; default {default.text}"
    if default.text != default.structured:
        size = (
            f"to {limits.MAX_BYTES_MOST}; default, least: {default.text} text, "
            f"{default.structured} structured"
        )
    bounds = Field(
        description=f"Bytes per channel, {size}",
        ge=limits.MAX_BYTES_LEAST,
        le=limits.MAX_BYTES_MOST,
    )
    return "max_bytes", Annotated[int | None, bounds]


def requested_budget(arguments: Arguments, *, default: Budget) -> Budget:
    """Return the default, or `max_bytes` for each channel.

    Both channels show the same page, so where their defaults differ, each is also the least: less
    room for one channel would show less in the other than its default does.
    """
    total = arguments.get("max_bytes")
    if total is None:
        return default
    if default.text == default.structured:
        return Budget(total, total)
    return Budget(max(total, default.structured), max(total, default.text))


_ORIGIN_BYTES = 140
"""Maximum size of the origin mark of a page."""


def limit_params(budget: Budget, *, structured: Body, text: Body) -> list[tuple[str, str]]:
    """Return the REST parameters that bound a page, given both channels without any item."""
    max_bytes = budget.structured - json_size(structured) - _ORIGIN_BYTES
    max_line_bytes = budget.text - wire_size(dumps(text))
    return [limit_param("max_bytes", max_bytes), limit_param("max_line_bytes", max_line_bytes)]


def limit_param(name: str, max_bytes: int) -> tuple[str, str]:
    """Return one REST size parameter, clamped to the range that REST accepts."""
    return name, str(min(max(max_bytes, limits.PAGE_BYTES_LEAST), limits.MAX_BYTES_MOST))


def read_page(
    request: Callable[[Params], Body],
    params: Params,
    *,
    build: Callable[[Body], Result],
    budget: Budget,
) -> Result:
    """Request a page and build its result.

    A server without byte limits is asked again for as many items as fit. If it ignores the limit too, the
    first items are shown, without its cursor, which would pass over the others. A single item that still
    exceeds the budget is shrunk. Raises AdapterError if the page cannot be made to fit.
    """
    body = request(params)
    result = build(body)
    if budget.allows(result):
        return result
    if len(body["data"]) > 1:
        first_items = largest_that_fits(
            len(body["data"]) - 1,
            render=lambda count: {**body, "data": body["data"][:count]},
            fits=lambda page: budget.allows(build(page)),
        )
        count = max(len(first_items["data"]) if first_items else 0, 1)
        others = [(name, value) for name, value in params if name != "limit"]
        body = request([*others, ("limit", str(count))])
        if len(body["data"]) > count:
            body = _first_items(body, count)
        if budget.allows(result := build(body)):
            return result
    return _shrunk(body, build=build, budget=budget)


_CURSORS = frozenset({"next_cursor", "next_changes_since", "links"})


def _first_items(body: Body, count: int) -> Body:
    """Return a page of a server that ignores the limit, cut, and how many items it had beyond."""
    left = {"ended_by": "max_bytes", "left": len(body["data"]) - count}
    kept = {name: body[name] for name in body if name not in _CURSORS}
    return {
        **kept,
        "data": body["data"][:count],
        "has_more": True,
        "meta": body.get("meta", {}) | left,
    }


def _shrunk(body: Body, *, build: Callable[[Body], Result], budget: Budget) -> Result:
    """Return the page with its only item shrunk, without links, which repeat the cursor."""
    body = {**body, "links": {}} if "links" in body else body
    if len(body["data"]) == 1:
        shared = body.get("shared", {})
        item = {**shared, **body["data"][0]}

        def page(item: Body) -> Body:
            shown = {name: value for name, value in item.items() if name not in shared}
            return {**body, "data": [shown]}

        def fits(item: Body) -> bool:
            return budget.allows(build(page(item)))

        shrunk = (
            shrink_hit(item, fits)
            if "evidence_excerpts" in item
            else shrink_record(item, fits, describe_read=describe_read)
        )
        if fits(shrunk):
            return build(page(shrunk))
    raise AdapterError(
        "result_too_large",
        "The page is larger than the result may be.",
        next_step="Call again with a larger max_bytes, with limit=1, or with fields set to the "
        "fields you need.",
    )
