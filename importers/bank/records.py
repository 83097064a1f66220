"""The records of every bank statement, in one shape."""

import re
from datetime import date
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any

from importers.core.results import Row
from importers.core.text import one_line, storable

_AMOUNT_MOST = 10**15
_EXPONENT = re.compile(r"\d[eE][+-]?\d")
_NO_AMOUNT = re.compile(r"[^\d.,+()\u2212-]")


def account_id(*parts: str | None) -> str:
    """The key of an account. Its number is in the record, where a grant can leave it out."""
    said = "/".join(part or "" for part in parts)
    return f"a_{sha256(said.encode('utf-8', 'replace')).hexdigest()[:20]}"


def account(key: str, *, name: str, **more: Any) -> Row:
    data: dict[str, Any] = dict.fromkeys(("bank", "kind", "currency", "balance", "balance_on"))
    return Row("accounts", {"id": key, "name": name, **data, **more})


def transaction(
    key: str, *, account: str, on: date | None, amount: Decimal, **more: str | None
) -> Row:
    names = ("currency", "counterparty", "counterparty_account", "kind", "category", "reference",
             "check_number", "memo")  # fmt: skip
    texts = {name: one_line(storable(more.get(name) or "")) or None for name in names}
    return Row(
        "transactions",
        {
            "id": key,
            "account_id": account,
            "date": on.isoformat() if on else None,
            "amount": float(amount),
            **texts,
        },
    )


def amount_of(text: str, *, decimal: str | None = None) -> Decimal | None:
    """An amount with its sign before or behind it or in brackets; None for what is none.

    ``decimal`` is the mark before the cents, the last one of two where it is not given.
    """
    if _EXPONENT.search(text):
        return None
    shown = _NO_AMOUNT.sub("", text).replace("\u2212", "-")
    is_negative = "-" in shown or shown.startswith("(")
    digits = shown.strip("+-()")
    mark = decimal or _mark(digits)
    other = "," if mark == "." else "."
    plain = digits.replace(other, "").replace(mark, ".")
    try:
        value = Decimal(plain)
    except InvalidOperation:
        return None
    if abs(value) >= _AMOUNT_MOST:
        return None
    return -value if is_negative else value


def _mark(digits: str) -> str:
    """The last mark, unless it stands before three digits and so may divide thousands."""
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma >= 0 and point >= 0:
        return "," if comma > point else "."
    mark, at = (",", comma) if comma >= 0 else (".", point)
    grouped = digits.count(mark) > 1 or (at >= 0 and len(digits) - at == 4 and mark == ",")
    return ("." if mark == "," else ",") if grouped else mark
