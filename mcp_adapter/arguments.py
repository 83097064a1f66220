"""The arguments of a tool: one description from which both the schema and the check come.

Hosts pass on types, enums and descriptions and drop `minimum` and `maximum`, so every bound is said
in words as well. An unknown argument is refused by name, with the nearest valid one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

from mcp_adapter.errors import AdapterError

Given: TypeAlias = Mapping[str, Any]
"""Checked arguments by name; one that was not given is absent."""


@dataclass(frozen=True, slots=True)
class Argument:
    """`accepts` returns the value to use, or raises ValueError with what the value must be."""

    name: str
    schema: dict[str, Any]
    accepts: Callable[[Any], Any]
    required: bool = False


def text(name: str, says: str = "", *, required: bool = False, longest: int = 4_000) -> Argument:
    """A non-empty string."""

    def accepts(value: Any) -> str:
        if not isinstance(value, str) or not value or len(value) > longest:
            message = f"a string of 1 to {longest} characters"
            raise ValueError(message)
        return value

    return Argument(name, _schema("string", says), accepts, required)


def whole(name: str, says: str = "", *, least: int, most: int) -> Argument:
    """An integer; 7.0 is one, "7" is not."""

    def accepts(value: Any) -> int:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            message = f"a whole number from {least} to {most}"
            raise ValueError(message)
        return number

    return Argument(name, _schema("integer", says), accepts)


def choice(name: str, values: Sequence[str], says: str = "", *, required: bool = False) -> Argument:
    """One of a few words."""

    def accepts(value: Any) -> str:
        if not isinstance(value, str) or value not in values:
            message = f"one of {', '.join(values)}"
            raise ValueError(message)
        return value

    return Argument(name, {**_schema("string", says), "enum": list(values)}, accepts, required)


def flag(name: str, says: str = "") -> Argument:
    """True or false."""

    def accepts(value: Any) -> bool:
        if not isinstance(value, bool):
            message = "true or false"
            raise ValueError(message)  # noqa: TRY004 - the one kind that `check` words
        return value

    return Argument(name, _schema("boolean", says), accepts)


def names(name: str, says: str = "", *, most: int = 64) -> Argument:
    """A list of names, none of which holds a comma (REST joins some of them with commas)."""

    def accepts(value: Any) -> list[str]:
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            message = f"a list of 1 to {most} names"
            raise ValueError(message)
        if not all(isinstance(item, str) and item and "," not in item for item in value):
            message = "a list of names without commas"
            raise ValueError(message)
        return value

    schema = {**_schema("array", says), "items": {"type": "string"}}
    return Argument(name, schema, accepts)


def members(name: str, says: str = "", *, accepts: Callable[[Any], Any]) -> Argument:
    """An object that `accepts` looks into."""
    return Argument(name, _schema("object", says), accepts)


def _schema(kind: str, says: str) -> dict[str, Any]:
    return {"type": kind, "description": says} if says else {"type": kind}


def input_schema(arguments: Sequence[Argument]) -> dict[str, Any]:
    """The JSON Schema that is advertised."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {argument.name: argument.schema for argument in arguments},
    }
    if required := [argument.name for argument in arguments if argument.required]:
        schema["required"] = required
    return {**schema, "additionalProperties": False}


def check(tool: str, arguments: Sequence[Argument], raw: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments to use; raises `AdapterError` for the first that is unknown, wrong or missing.

    A null is an argument that was not given: some hosts fill in every optional one.
    """
    known = {argument.name: argument for argument in arguments}
    for name in raw:
        if name not in known:
            raise _unknown(tool, name, known=list(known))
    given = {name: value for name, value in raw.items() if value is not None}
    for argument in arguments:
        if argument.required and argument.name not in given:
            raise _wrong(tool, argument.name, "missing", must="given")
    return {name: _accepted(tool, known[name], value) for name, value in given.items()}


def _accepted(tool: str, argument: Argument, value: Any) -> Any:
    try:
        return argument.accepts(value)
    except ValueError as reason:
        raise _wrong(tool, argument.name, "invalid", must=str(reason)) from None


def _unknown(tool: str, name: str, *, known: list[str]) -> AdapterError:
    shown = name if len(name) <= 64 and name.isprintable() else "that name"
    nearest = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f" Did you mean {nearest[0]}?" if nearest else ""
    return AdapterError(
        "unknown_argument",
        f"{tool} has no argument {shown}.{hint}",
        param=shown,
        next_step=f"Call {tool} again with only these arguments: {', '.join(known)}.",
        **({"nearest": nearest[0]} if nearest else {}),
    )


def _wrong(tool: str, name: str, kind: str, *, must: str) -> AdapterError:
    return AdapterError(
        f"{kind}_argument",
        f"{tool}: {name} must be {must}.",
        param=name,
        next_step=f"Call {tool} again with {name} corrected.",
    )
