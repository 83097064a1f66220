"""Convert JSON values to the instants, numbers, words and sort keys that storage and queries compare.

Storing and reading both use these functions and no others, so a filter value and a stored value
always compare alike. A stored value of the wrong type or an impossible date is treated as missing;
`parse_filter_value` refuses such a text, because `filter[size][gte]=abc` must not return an empty page.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Final

from evidence import limits
from evidence.declarations.declaration import Field

INDEXED_TEXT_BYTES: Final = 256
"""Length of the indexed prefix of a string, which must fit in an index row beside other keys."""

NUMBER_EXPONENTS: Final = range(-16_383, 131_072)
"""Decimal exponents of the first digit in the range of PostgreSQL's numeric."""
_EXPONENT_BIAS: Final = 200_000
_SIGNIFICANT_DIGITS: Final = 200
_PLAIN_INTEGERS: Final = 10**40

TIME_KEYS: Final = ("d", "s", "t")
"""First letters of the sort keys of dates, strings and times. ISO 8601 in UTC follows the letter."""

_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2}))?"
)
_SECONDS = slice(17, 19)
_COMPLEMENT = str.maketrans("0123456789", "9876543210")


def parse_instant(value: object) -> datetime | None:
    """Return an RFC 3339 date-time, or a date at midnight, in UTC.

    A date-time needs an offset. Fractions are truncated to microseconds; a leap second is the
    second after it, as in POSIX.
    """
    return _parse_instant(value) if isinstance(value, str) else None


PLAUSIBLE_YEARS: Final = range(1900, 2101)
DATE_CHARS: Final = len("2026-11-21")
UNIX_TIME: Final = "unix-time"
"""The format with which a schema says that an integer counts the seconds since 1970."""


def declared_time(field: Field, value: object) -> datetime | None:
    """Return the instant of a value whose field declares a date, a time or Unix seconds.

    None if the value does not parse as what the format says, or lies outside PLAUSIBLE_YEARS: it is
    stored and shown, and has no place in filters, order and time ranges.
    """
    if field.kind in {"time", "date"}:
        is_date = isinstance(value, str) and len(value) <= DATE_CHARS
        instant = parse_instant(value) if is_date is (field.kind == "date") else None
    elif field.format == UNIX_TIME:
        instant = _unix_time(value)
    else:
        return None
    return instant if instant is not None and instant.year in PLAUSIBLE_YEARS else None


def _unix_time(value: object) -> datetime | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    try:
        return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None


# The time of a record is parsed for the schema, the sort key, the time range and a typed column.
@lru_cache(maxsize=256)
def _parse_instant(value: str) -> datetime | None:
    if not _INSTANT.fullmatch(value):
        return None
    text = value if value[-1] != "z" else value[:-1] + "Z"
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return _leap_second(text)
    if time.tzinfo is UTC:
        return time
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return None


def to_number(value: object) -> Decimal | int | None:
    """Return the exact value of a JSON number, or None if a numeric column cannot hold it."""
    match value:
        case bool():
            return None
        case int():
            if abs(value) < _PLAIN_INTEGERS:
                return value
            exact = Decimal(value)
        case float():
            # repr is the shortest text that parses to this float, as the document has it.
            exact = Decimal(repr(value))
        case Decimal():
            exact = value
        case _:
            return None
    is_storable = exact.is_finite() and (not exact or exact.adjusted() in NUMBER_EXPONENTS)
    return exact if is_storable else None


def indexed_text(value: object) -> str | None:
    """Return a string truncated to INDEXED_TEXT_BYTES, or the text of a boolean."""
    match value:
        case str():
            return truncate_text(value)
        case bool():
            return "true" if value else "false"
        case _:
            return None


def key_text(value: object) -> str | None:
    """Return the record key in a foreign key, or None if no record can have that key."""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str) or not 0 < len(value.encode()) <= limits.RECORD_KEY_MAX_BYTES:
        return None
    return value


def sort_key(field: Field, value: object) -> str | None:
    """Return text whose UTF-8 byte order (COLLATE "C") is the order of the values of the field.

    The first letter is the type (boolean, date, number, string, time), so values of mixed types are
    ordered, too. Null, the empty string, arrays and objects have no key.
    """
    match value:
        case bool():
            return "b1" if value else "b0"
        case str():
            return _text_key(field, value) if value else None
        case datetime():
            return field.time_key(value)
        case date():
            return "d" + value.isoformat()
        case _:
            exact = to_number(value)
            return None if exact is None else number_key(exact)


def number_key(exact: Decimal | int) -> str:
    """Return `n`, the sign, the biased exponent and the digits.

    Negative numbers have complements of nine, and a final `~` that sorts more digits first.
    """
    digits, exponent = _scientific(exact)
    if not digits:
        return "n1"
    key = f"{exponent + _EXPONENT_BIAS:06d}{digits[:_SIGNIFICANT_DIGITS]}"
    return f"n0{key.translate(_COMPLEMENT)}~" if exact < 0 else f"n2{key}"


def truncate_text(text: str) -> str:
    """Return at most INDEXED_TEXT_BYTES of UTF-8, ending at a complete code point."""
    if len(text) * 4 <= INDEXED_TEXT_BYTES:
        return text
    encoded = text.encode("utf-8", "replace")
    return encoded[:INDEXED_TEXT_BYTES].decode("utf-8", "ignore")


def _text_key(field: Field, value: str) -> str | None:
    if field.kind in {"time", "date"}:
        instant = declared_time(field, value)
        return None if instant is None else sort_key(field, instant)
    return "s" + truncate_text(value)


def _leap_second(text: str) -> datetime | None:
    """Return the midnight after a second 60, which datetime does not support."""
    if text[_SECONDS] != "60":
        return None
    before = parse_instant(f"{text[:17]}59{text[19:]}")
    if before is None or (before.hour, before.minute) != (23, 59):
        return None
    try:
        return before.replace(microsecond=0) + timedelta(seconds=1)
    except OverflowError:
        return None


def _scientific(exact: Decimal | int) -> tuple[str, int]:
    """Return the significant digits (none for zero), and the decimal exponent of the first."""
    if isinstance(exact, int):
        digits = str(abs(exact))
        return digits.rstrip("0"), len(digits) - 1
    parts = exact.as_tuple()
    return "".join(map(str, parts.digits)).rstrip("0"), exact.adjusted()


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
    number = to_number(Decimal(text)) if _NUMBER.fullmatch(text) else None
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
    instant = parse_instant(text)
    if instant is None:
        raise FilterValueError(
            f"{field.name} takes a date-time with an offset, such as 2026-11-21T08:30:00Z, or a "
            "date, which means midnight in UTC."
        )
    return instant


def _date(field: Field, text: str) -> datetime:
    instant = parse_instant(text) if len(text) == DATE_CHARS else None
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
