"""What a JSON value is worth to storage and to queries: an instant, a number, a word, a sort key.

Storing and reading both call these functions, and only these, so that a bound given in a filter and
a value kept in a column always compare alike. Nothing here raises on a value of the wrong type or
an impossible date: such a value counts as missing.
"""

import json
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Final

from evidence import limits
from evidence.declarations.declaration import Field

WORD_BYTES: Final = 256
"""How much of a string is compared: what an index row can hold, with room for the other keys."""

NUMBER_EXPONENTS: Final = range(-16_383, 131_072)
"""Decimal exponents of the first digit that a PostgreSQL numeric can hold."""
_EXPONENT_BIAS: Final = 200_000
_SIGNIFICANT_DIGITS: Final = 200
_PLAIN_INTEGERS: Final = 10**40

_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2}))?"
)
_SECONDS = slice(17, 19)
_COMPLEMENT = str.maketrans("0123456789", "9876543210")


def instant(value: object) -> datetime | None:
    """The moment of an RFC 3339 date-time, or of a date at UTC midnight, in UTC.

    A date-time needs its offset. Fractions are cut to microseconds; a leap second is the first
    moment after it, as in POSIX.
    """
    return _moment(value) if isinstance(value, str) else None


# A record tells its time to the schema, the order, the time range and a typed column.
@lru_cache(maxsize=256)
def _moment(value: str) -> datetime | None:
    if not _INSTANT.fullmatch(value):
        return None
    text = value if value[-1] != "z" else value[:-1] + "Z"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _leap_second(text)
    if moment.tzinfo is UTC:
        return moment
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return _in_utc(moment)


def number(value: object) -> Decimal | int | None:
    """The exact number of a JSON number, or nothing for what a numeric column cannot hold."""
    match value:
        case bool():
            return None
        case int():
            if abs(value) < _PLAIN_INTEGERS:
                return value
            exact = Decimal(value)
        case float():
            # The shortest text that reads back as this float: what the document said.
            exact = Decimal(repr(value))
        case Decimal():
            exact = value
        case _:
            return None
    return exact if exact.is_finite() and _digits_fit(exact) else None


def word(value: object) -> str | None:
    """The text of a string, cut to WORD_BYTES at a code point, or of a boolean."""
    match value:
        case str():
            return cut(value)
        case bool():
            return "true" if value else "false"
        case _:
            return None


def key_text(value: object) -> str | None:
    """The key of the record that a foreign key means; null where no record could have it."""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if not isinstance(value, str) or not 0 < len(value.encode()) <= limits.RECORD_KEY_MAX_BYTES:
        return None
    return value


def field_text(value: object) -> str:
    """The text of a searchable field: a string, or the strings of a list, a line each."""
    if isinstance(value, list):
        return "\n".join(each for each in value if isinstance(each, str))
    return value if isinstance(value, str) else ""


def sort_key(field: Field, value: object) -> str | None:
    """Text whose UTF-8 byte order (COLLATE "C") is the order of the values of the field.

    The first letter says what it is (boolean, date, number, string, time), so that values of mixed
    types have one order. Missing, null, empty, and arrays or objects have no key.
    """
    match value:
        case bool():
            return "b1" if value else "b0"
        case str():
            return _text_key(field, value) if value else None
        case datetime():
            return _time_key(value) if field.kind != "date" else "d" + value.date().isoformat()
        case date():
            return "d" + value.isoformat()
        case _:
            exact = number(value)
            return None if exact is None else number_key(exact)


def number_key(exact: Decimal | int) -> str:
    """`n`, the sign, the biased exponent, the digits. Below zero, exponent and digits are taken
    from nine, and a closing `~` puts the longer number, which is the lesser, first."""
    digits, exponent = _scientific(exact)
    if not digits:
        return "n1"
    key = f"{exponent + _EXPONENT_BIAS:06d}{digits[:_SIGNIFICANT_DIGITS]}"
    return f"n0{key.translate(_COMPLEMENT)}~" if exact < 0 else f"n2{key}"


def cut(text: str) -> str:
    """At most WORD_BYTES of UTF-8, no code point broken."""
    if len(text) * 4 <= WORD_BYTES:
        return text
    encoded = text.encode("utf-8", "replace")
    return encoded[:WORD_BYTES].decode("utf-8", "ignore")


def _text_key(field: Field, value: str) -> str:
    if field.kind in {"time", "date"}:
        moment = instant(value)
        if moment is not None:
            return sort_key(field, moment) or ""
    return "s" + cut(value)


def _time_key(moment: datetime) -> str:
    # Fixed width: "t2026-11-21T08:30:00.000000".
    return "t" + moment.astimezone(UTC).isoformat(timespec="microseconds")[:-6]


def _in_utc(moment: datetime) -> datetime | None:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return None


def _leap_second(text: str) -> datetime | None:
    """The midnight after a second 60, which Python has no datetime for."""
    if text[_SECONDS] != "60":
        return None
    before = instant(f"{text[:17]}59{text[19:]}")
    if before is None or (before.hour, before.minute) != (23, 59):
        return None
    try:
        return before.replace(microsecond=0) + timedelta(seconds=1)
    except OverflowError:
        return None


def _digits_fit(exact: Decimal) -> bool:
    return not exact or exact.adjusted() in NUMBER_EXPONENTS


def _scientific(exact: Decimal | int) -> tuple[str, int]:
    """Digits without zeros at either end, and the decimal exponent of the first; zero has none."""
    if isinstance(exact, int):
        digits = str(abs(exact))
        return digits.rstrip("0"), len(digits) - 1
    parts = exact.as_tuple()
    return "".join(map(str, parts.digits)).rstrip("0"), exact.adjusted()
