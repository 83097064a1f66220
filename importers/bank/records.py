"""Build account and transaction records."""

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from hashlib import sha256
from typing import Any

from importers.core.results import ParsedRecord
from importers.core.text import one_line, replace_unstorable

DETAILS_MAX_CHARS = 20_000


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
    key: str,
    *,
    account: str,
    on: date | None,
    amount: Decimal,
    details: Iterable[tuple[str, str]] = (),
    **fields: str | None,
) -> ParsedRecord:
    """``details`` are other texts of the booking, by what the statement calls them."""
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
            "details": _details(details) or None,
        },
    )


def _details(pairs: Iterable[tuple[str, str]]) -> str:
    lines = (": ".join(map(one_line, (name, text))).removeprefix(": ") for name, text in pairs)
    return replace_unstorable("\n".join(lines))[:DETAILS_MAX_CHARS]
