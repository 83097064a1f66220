"""The arguments of tools: parameters of a route in the form that tools show, and some of a tool's own.

MCP hosts pass on types, enums and descriptions but drop bounds, so descriptions state every bound in
words. An unknown argument is refused with the nearest valid name. A null and an empty filter count as
not given, because some hosts send every optional argument.
"""

from collections.abc import Container, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, TypeAlias, get_args

from pydantic import Field, create_model

from evidence.parameters import NameList, ParameterError, Parameters, shown
from evidence.record_ids import RecordRef, path_segment
from mcp_adapter.errors import AdapterError

Arguments: TypeAlias = Mapping[str, Any]
"""Validated arguments by name, without those that were not given."""
ShortText = Annotated[str, Field(min_length=1, max_length=4_000)]


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
