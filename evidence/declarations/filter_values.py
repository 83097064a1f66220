"""A filter value from a query string, as a value of the declared type.

A filter must never fall back to comparing strings: `filter[size][gte]=abc` is an error that says
what the field takes, not an empty page.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal

from evidence.declarations import values
from evidence.declarations.declaration import Field

Value = bool | int | Decimal | datetime | str

TEXT_CHARS = 1_024
"""The longest filter value that is looked at."""

INTEGER_DIGITS = 40

_NUMBER_WORDS = {True: "an integer", False: "a number"}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,6})?")


class CoercionError(ValueError):
    """The text is no value of the field; `str()` says what the field takes, and no more of the
    text than its type."""


def coerce(field: Field, text: str) -> Value:
    """The value of `text` for the field: bool, int, Decimal, an instant in UTC, or a string.

    Times and dates become instants, as in the columns they are compared with. Where the field
    takes several types the most specific reading wins: number, boolean, then string; a JSON string
    in quotation marks is always a string.
    """
    if len(text) > TEXT_CHARS:
        raise CoercionError(f"{field.name} takes at most {TEXT_CHARS} characters here.")
    if "\0" in text:
        raise CoercionError(f"{field.name} holds no NUL characters.")
    if field.kind == "mixed":
        return _mixed(field, text)
    reading = _READINGS.get(field.kind)
    if reading is None:
        raise CoercionError(f"{field.name} holds an {field.kind}, which cannot be compared.")
    return reading(field, text)


def _number(field: Field, text: str) -> int | Decimal:
    exact = _exact(field, text)
    if exact is None:
        raise CoercionError(f"{field.name} takes {_NUMBER_WORDS[_whole(field)]}.")
    return exact


def _exact(field: Field, text: str) -> int | Decimal | None:
    exact = values.number(Decimal(text)) if _NUMBER.fullmatch(text) else None
    if not isinstance(exact, Decimal) or not _whole(field):
        return exact
    if exact != exact.to_integral_value():
        return None
    # Beyond that, writing out every digit is nobody's wish.
    return int(exact) if exact.adjusted() < INTEGER_DIGITS else exact


def _whole(field: Field) -> bool:
    return "integer" in field.types and "number" not in field.types


def _boolean(field: Field, text: str) -> bool:
    if text not in {"true", "false"}:
        raise CoercionError(f"{field.name} takes true or false.")
    return text == "true"


def _time(field: Field, text: str) -> datetime:
    moment = values.instant(text)
    if moment is None:
        raise CoercionError(
            f"{field.name} takes a date-time with its offset, such as 2026-11-21T08:30:00Z, or a "
            "date, which is its midnight in UTC."
        )
    return moment


def _date(field: Field, text: str) -> datetime:
    moment = values.instant(text) if len(text) == len("2026-11-21") else None
    if moment is None:
        raise CoercionError(f"{field.name} takes a date, such as 2026-11-21.")
    return moment


def _string(_field: Field, text: str) -> str:
    return text


def _mixed(field: Field, text: str) -> Value:
    """A field of several types. One of no known type takes any scalar."""
    types = set(field.types) or {"number", "boolean", "string"}
    if "string" in types and text.startswith('"'):
        return _quoted(field, text)
    exact = _exact(field, text) if types & {"integer", "number"} else None
    if exact is not None:
        return exact
    if "boolean" in types and text in {"true", "false"}:
        return text == "true"
    if "string" in types:
        return text
    raise CoercionError(f"{field.name} takes {' or '.join(sorted(types))}.")


def _quoted(field: Field, text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, str):
        raise CoercionError(f"{field.name} starts with a quotation mark but is no JSON string.")
    return value


_READINGS: Mapping[str, Callable[[Field, str], Value]] = {
    "number": _number,
    "boolean": _boolean,
    "time": _time,
    "date": _date,
    "string": _string,
}
