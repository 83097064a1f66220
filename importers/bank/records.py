"""Build account and transaction records, and parse amounts."""

import re
from datetime import date
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any

from importers.core.results import ParsedRecord
from importers.core.text import one_line, replace_unstorable

_MAX_AMOUNT = 10**15
_EXPONENT = re.compile(r"\d[eE][+-]?\d")
_NOT_AMOUNT = re.compile(r"[^\d.,+()\u2212-]")


def account_id(*parts: str | None) -> str:
    """Return the record key of an account.

    The key hides the account number, which is a field that a grant can exclude.
    """
    identity = "/".join(part or "" for part in parts)
    return f"a_{sha256(identity.encode('utf-8', 'replace')).hexdigest()[:20]}"


def account_record(key: str, *, name: str, **fields: Any) -> ParsedRecord:
    data: dict[str, Any] = dict.fromkeys(("bank", "kind", "currency", "balance", "balance_on"))
    return ParsedRecord("accounts", {"id": key, "name": name, **data, **fields})


def transaction_record(
    key: str, *, account: str, on: date | None, amount: Decimal, **fields: str | None
) -> ParsedRecord:
    names = ("currency", "counterparty", "counterparty_account", "kind", "category", "reference",
             "check_number", "memo")  # fmt: skip
    texts = {name: one_line(replace_unstorable(fields.get(name) or "")) or None for name in names}
    return ParsedRecord(
        "transactions",
        {
            "id": key,
            "account_id": account,
            "date": on.isoformat() if on else None,
            "amount": float(amount),
            **texts,
        },
    )


def parse_amount(text: str, *, decimal_separator: str | None = None) -> Decimal | None:
    """Return an amount, or None if the text is none.

    A negative amount has a minus sign before or after it, or is in parentheses. Without a given
    decimal separator the last of two separators is the decimal one.
    """
    if _EXPONENT.search(text):
        return None
    cleaned = _NOT_AMOUNT.sub("", text).replace("\u2212", "-")
    is_negative = "-" in cleaned or cleaned.startswith("(")
    digits = cleaned.strip("+-()")
    separator = decimal_separator or _detect_decimal_separator(digits)
    digits = digits.replace("," if separator == "." else ".", "").replace(separator, ".")
    try:
        value = Decimal(digits)
    except InvalidOperation:
        return None
    if abs(value) >= _MAX_AMOUNT:
        return None
    return -value if is_negative else value


def _detect_decimal_separator(digits: str) -> str:
    """Return the last separator, unless it separates thousands."""
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma >= 0 and point >= 0:
        return "," if comma > point else "."
    mark, position = (",", comma) if comma >= 0 else (".", point)
    has_three_decimals = position >= 0 and len(digits) - position == 4
    if digits.count(mark) > 1 or (has_three_decimals and mark == ","):
        return "." if mark == "," else ","
    return mark
