"""Define tool arguments once, for both the input schema and the validation of calls.

MCP hosts pass on types, enums and descriptions but drop `minimum` and `maximum`, so descriptions
state every bound in words. An unknown argument is refused with the nearest valid name. Arguments that
several tools share, and the REST paths and parameters for arguments, are defined at the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

from evidence import limits
from evidence.record_ids import RecordRef, path_segment
from mcp_adapter.errors import AdapterError

Arguments: TypeAlias = Mapping[str, Any]
"""Validated arguments by name, without those that were not given."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. `parse` returns the value to use, or raises ValueError with what it must be."""

    name: str
    schema: dict[str, Any]
    parse: Callable[[Any], Any]
    required: bool = False


def string(
    name: str, description: str = "", *, required: bool = False, max_length: int = 4_000
) -> Argument:
    """Define a non-empty string argument."""

    def parse(value: Any) -> str:
        if not isinstance(value, str) or not value or len(value) > max_length:
            message = f"a string of 1 to {max_length} characters"
            raise ValueError(message)
        return value

    return Argument(name, _schema("string", description), parse, required)


def integer(name: str, description: str = "", *, minimum: int, maximum: int) -> Argument:
    """Define an integer argument. It accepts 7.0, but not "7"."""

    def parse(value: Any) -> int:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        is_integer = isinstance(number, int) and not isinstance(number, bool)
        if not is_integer or not minimum <= number <= maximum:
            message = f"a whole number from {minimum} to {maximum}"
            raise ValueError(message)
        return number

    return Argument(name, _schema("integer", description), parse)


def choice(
    name: str, values: Sequence[str], description: str = "", *, required: bool = False
) -> Argument:
    """Define an argument with a fixed set of values."""

    def parse(value: Any) -> str:
        if not isinstance(value, str) or value not in values:
            message = f"one of {', '.join(values)}"
            raise ValueError(message)
        return value

    schema = {**_schema("string", description), "enum": list(values)}
    return Argument(name, schema, parse, required)


def boolean(name: str, description: str = "") -> Argument:
    """Define a boolean argument."""

    def parse(value: Any) -> bool:
        if not isinstance(value, bool):
            message = "true or false"
            raise ValueError(message)  # noqa: TRY004 - `validate` catches ValueError only
        return value

    return Argument(name, _schema("boolean", description), parse)


def string_list(name: str, description: str = "", *, max_items: int = 64) -> Argument:
    """Define a list of names without commas, because REST joins some of them with commas."""

    def parse(value: Any) -> list[str]:
        if not isinstance(value, list) or not 1 <= len(value) <= max_items:
            message = f"a list of 1 to {max_items} names"
            raise ValueError(message)
        if not all(isinstance(item, str) and item and "," not in item for item in value):
            message = "a list of names without commas"
            raise ValueError(message)
        return value

    schema = {**_schema("array", description), "items": {"type": "string"}}
    return Argument(name, schema, parse)


def object_(name: str, description: str = "", *, parse: Callable[[Any], Any]) -> Argument:
    """Define an object argument that `parse` validates."""
    return Argument(name, _schema("object", description), parse)


def _schema(kind: str, description: str) -> dict[str, Any]:
    return {"type": kind, "description": description} if description else {"type": kind}


def input_schema(declared: Sequence[Argument]) -> dict[str, Any]:
    """Return the JSON Schema that `tools/list` shows."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {argument.name: argument.schema for argument in declared},
    }
    if required := [argument.name for argument in declared if argument.required]:
        schema["required"] = required
    return {**schema, "additionalProperties": False}


def validate(tool: str, declared: Sequence[Argument], raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments to use.

    A null counts as not given, because some hosts send every optional argument. Raises AdapterError
    for the first argument that is unknown, invalid or missing.
    """
    by_name = {argument.name: argument for argument in declared}
    for name in raw:
        if name not in by_name:
            raise _unknown_argument(tool, name, known=list(by_name))
    given = {name: value for name, value in raw.items() if value is not None}
    for argument in declared:
        if argument.required and argument.name not in given:
            raise _argument_error(tool, argument.name, "missing", expected="given")
    return {name: _parse(tool, by_name[name], value) for name, value in given.items()}


def _parse(tool: str, argument: Argument, value: Any) -> Any:
    try:
        return argument.parse(value)
    except ValueError as error:
        raise _argument_error(tool, argument.name, "invalid", expected=str(error)) from None


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


def _argument_error(tool: str, name: str, kind: str, *, expected: str) -> AdapterError:
    return AdapterError(
        f"{kind}_argument",
        f"{tool}: {name} must be {expected}.",
        param=name,
        next_step=f"Call {tool} again with {name} corrected.",
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


def connection_params(connection_id: str | None) -> list[tuple[str, str]]:
    """Return the REST parameter for a connection, if there is one."""
    return [] if connection_id is None else [("connection_id", connection_id)]


def stream_path(name: str) -> str:
    """Return `/v1/streams/{stream}`."""
    return f"/v1/streams/{path_segment(name)}"


def record_path(ref: RecordRef) -> str:
    """Return `/v1/streams/{stream}/records/{record_id}`."""
    return f"{stream_path(ref.stream)}/records/{path_segment(ref.record_id)}"


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
        if isinstance(member, dict):
            for operator, bound in member.items():
                values = bound if isinstance(bound, list) else [bound]
                pairs += [(f"{name}[{key}][{operator}]", _scalar(value)) for value in values]
        else:
            pairs.append((f"{name}[{key}]", _scalar(member)))
    return pairs


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
