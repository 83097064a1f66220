"""Parse a filter value from a query string into a value of the declared field type.

A value of the wrong type is an error that names the expected type. It is never compared as a
string: `filter[size][gte]=abc` must not return an empty page.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal

from evidence.declarations import values
from evidence.declarations.declaration import Field

FilterValue = bool | int | Decimal | datetime | str

TEXT_MAX_CHARS = 1_024
INTEGER_MAX_DIGITS = 40

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,6})?")


class FilterValueError(ValueError):
    """The text is no value of the field. The message names the field and the expected type."""


def parse_filter_value(field: Field, text: str) -> FilterValue:
    """Return the value of `text`. Raises FilterValueError.

    Times and dates become instants in UTC, as in the columns that they are compared with. A field
    of several types takes the first type that fits: number, boolean, string. A JSON string in
    quotation marks is always a string.
    """
    if len(text) > TEXT_MAX_CHARS:
        raise FilterValueError(f"{field.name} takes at most {TEXT_MAX_CHARS} characters.")
    if "\0" in text:
        raise FilterValueError(f"{field.name} takes no NUL characters.")
    if field.kind == "mixed":
        return _mixed(field, text)
    parse = _PARSERS.get(field.kind)
    if parse is None:
        raise FilterValueError(f"{field.name} is an {field.kind}, which cannot be compared.")
    return parse(field, text)


def _number(field: Field, text: str) -> int | Decimal:
    number = _to_number(field, text)
    if number is None:
        expected = "an integer" if _is_integer(field) else "a number"
        raise FilterValueError(f"{field.name} takes {expected}.")
    return number


def _to_number(field: Field, text: str) -> int | Decimal | None:
    number = values.to_number(Decimal(text)) if _NUMBER.fullmatch(text) else None
    if not isinstance(number, Decimal) or not _is_integer(field):
        return number
    if number != number.to_integral_value():
        return None
    # A number such as 1e100000 would have that many digits as an int.
    return int(number) if number.adjusted() < INTEGER_MAX_DIGITS else number


def _is_integer(field: Field) -> bool:
    return "integer" in field.types and "number" not in field.types


def _boolean(field: Field, text: str) -> bool:
    if text not in {"true", "false"}:
        raise FilterValueError(f"{field.name} takes true or false.")
    return text == "true"


def _time(field: Field, text: str) -> datetime:
    instant = values.parse_instant(text)
    if instant is None:
        raise FilterValueError(
            f"{field.name} takes a date-time with an offset, such as 2026-11-21T08:30:00Z, or a "
            "date, which means midnight in UTC."
        )
    return instant


def _date(field: Field, text: str) -> datetime:
    instant = values.parse_instant(text) if len(text) == len("2026-11-21") else None
    if instant is None:
        raise FilterValueError(f"{field.name} takes a date, such as 2026-11-21.")
    return instant


def _mixed(field: Field, text: str) -> FilterValue:
    """Parse a value for a field of several types; without known types it takes any scalar."""
    types = set(field.types) or {"number", "boolean", "string"}
    if "string" in types and text.startswith('"'):
        return _json_string(field, text)
    number = _to_number(field, text) if types & {"integer", "number"} else None
    if number is not None:
        return number
    if "boolean" in types and text in {"true", "false"}:
        return text == "true"
    if "string" in types:
        return text
    raise FilterValueError(f"{field.name} takes {' or '.join(sorted(types))}.")


def _json_string(field: Field, text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, str):
        raise FilterValueError(
            f"{field.name} starts with a quotation mark but is not a JSON string."
        )
    return value


_PARSERS: Mapping[str, Callable[[Field, str], FilterValue]] = {
    "number": _number,
    "boolean": _boolean,
    "time": _time,
    "date": _date,
    "string": lambda _field, text: text,
}
