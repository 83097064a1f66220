"""Build account and transaction records."""

from datetime import date
from decimal import Decimal
from hashlib import sha256
from typing import Any

from importers.core.results import ParsedRecord
from importers.core.text import one_line, replace_unstorable


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
    **fields: str | None,
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
