"""Show declared money as a decimal with its currency.

A number field declares `x_pdpp_money: {"currency_field": ..., "unit": "minor"}`. A minor unit is the
smallest of the currency, such as a cent; the exponent of ISO 4217 says how many digits that are, unless
the declaration gives an `exponent`. With `"unit": "major"` the number is the amount itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from evidence.declarations.declaration import Field, StreamDeclaration

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
    """How a field declares money; without an ``exponent``, the currency decides."""

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
    for name, value in data.items():
        field = stream.fields.get(name)
        declared = money_format(field) if field is not None else None
        text = declared.text(value, granted.get(declared.currency_field)) if declared else None
        if text is not None:
            texts[name] = text
    return texts
