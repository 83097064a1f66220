"""Convert JSON values to the instants, numbers, words and sort keys that storage and queries compare.

Storing and reading both use these functions and no others, so a filter value and a stored value
always compare alike. A value of the wrong type or an impossible date is treated as missing; no
function raises for it. Declared money is shown as a decimal with its currency.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

from evidence import limits
from evidence.declarations.declaration import Field, StreamDeclaration

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


def field_text(value: object) -> str:
    """Return the text of a searchable field: a string, or the strings of a list as lines."""
    if isinstance(value, list):
        return "\n".join(item for item in value if isinstance(item, str))
    return value if isinstance(value, str) else ""


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
            return _time_key(value) if field.kind != "date" else "d" + value.date().isoformat()
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


def _text_key(field: Field, value: str) -> str:
    if field.kind in {"time", "date"}:
        instant = parse_instant(value)
        if instant is not None:
            return sort_key(field, instant) or ""
    return "s" + truncate_text(value)


def _time_key(time: datetime) -> str:
    # Fixed width: "t2026-11-21T08:30:00.000000".
    return "t" + time.astimezone(UTC).isoformat(timespec="microseconds")[:-6]


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


_CURRENCY = re.compile(r"[A-Z]{3}")
_DEFAULT_EXPONENT = 2
_EXPONENTS = dict.fromkeys(
    ("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF",
     "XOF", "XPF"), 0,
) | dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3)  # fmt: skip
_MAX_EXPONENT = 6
_MAX_AMOUNT = 10**18


@dataclass(frozen=True, slots=True)
class MoneyFormat:
    """How a number field declares money: `x_pdpp_money: {"currency_field": ..., "unit": "minor"}`.

    A minor unit is the smallest of the currency, such as a cent; the exponent says how many digits
    that are, and without one ISO 4217 does. With `"unit": "major"` the number is the amount itself.
    """

    currency_field: str
    is_minor: bool
    exponent: int | None

    def text(self, value: object, currency: object) -> str | None:
        """Return `-74.40 EUR`, or None if the values are no money."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
            return None
        digits = (
            _EXPONENTS.get(currency, _DEFAULT_EXPONENT) if self.exponent is None else self.exponent
        )
        try:
            amount = Decimal(str(value))
        except InvalidOperation:
            return None
        if not abs(amount) < _MAX_AMOUNT:
            return None
        if self.is_minor:
            amount = amount.scaleb(-digits)
        exact = amount if -int(amount.as_tuple().exponent) > digits else round(amount, digits)
        return f"{exact:f} {currency}"


def money_format(field: Field) -> MoneyFormat | None:
    """Return how a field declares money, or None if it does not, or not validly."""
    declared = field.schema.get("x_pdpp_money")
    if field.kind != "number" or not isinstance(declared, Mapping):
        return None
    name, exponent = declared.get("currency_field"), declared.get("exponent")
    if not isinstance(name, str) or declared.get("unit") not in ("minor", "major"):
        return None
    if (
        not isinstance(exponent, int)
        or isinstance(exponent, bool)
        or not 0 <= exponent <= _MAX_EXPONENT
    ):
        exponent = None
    return MoneyFormat(name, declared["unit"] == "minor", exponent)


def currency_field(stream: StreamDeclaration, name: str) -> str | None:
    """Return the field with the currency of a money field, or None if this is no money."""
    field = stream.fields.get(name)
    declared = money_format(field) if field is not None else None
    return declared.currency_field if declared else None


def money_texts(
    stream: StreamDeclaration, data: Mapping[str, object], granted: Mapping[str, object]
) -> dict[str, str]:
    """Return the money of the fields in ``data``. Currencies come from all ``granted`` fields."""
    texts = {}
    for name, value in data.items() if stream.money_fields else ():
        declared = money_format(stream.fields[name]) if name in stream.money_fields else None
        text = declared.text(value, granted.get(declared.currency_field)) if declared else None
        if text is not None:
            texts[name] = text
    return texts
