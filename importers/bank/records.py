"""Build account and transaction records.

The ``earlier_`` functions return the keys of the release before, so that the next import replaces its
rows. Their names and their order are frozen: they decided which cells a key was made of.
"""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from hashlib import sha256
from typing import Any

from importers.core.results import ContentKeys, ParsedRecord
from importers.core.text import one_line, replace_unstorable


def account_id(*parts: str | None) -> str:
    """Return the record key of an account.

    The key hides the account number, which is a field that a grant can exclude.
    """
    identity = "/".join(part or "" for part in parts)
    return f"a_{sha256(identity.encode('utf-8', 'replace')).hexdigest()[:20]}"


def account_record(
    key: str, *, name: str, replaces: tuple[str, ...] = (), **fields: Any
) -> ParsedRecord:
    data: dict[str, Any] = dict.fromkeys(("bank", "kind", "currency", "balance", "balance_on"))
    return ParsedRecord("accounts", {"id": key, "name": name, **data, **fields}, replaces)


def transaction_record(
    key: str,
    *,
    account: str,
    on: date | None,
    amount: Decimal,
    replaces: tuple[str, ...] = (),
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
        replaces,
    )


EARLIER_CSV_ACCOUNT = account_id("csv")
"""All CSV files of a connection were one account."""
_COLUMN_NAMES: dict[str, tuple[str, ...]] = {
    "date": ("date", "booking date", "buchungstag", "buchungsdatum", "datum", "transaction date",
             "posting date", "posted date", "buchung", "fecha", "fecha operación", "data",
             "date opération", "date de comptabilisation", "date comptable", "started date", "日付"),
    "amount": ("amount", "betrag", "betrag (eur)", "betrag (€)", "umsatz", "importe", "importo",
               "montant", "bedrag", "amount (eur)", "value", "金額", "transaction amount"),
    "debit": ("debit", "soll", "débit", "cargo", "money out", "paid out", "debit amount",
              "withdrawals", "belastung"),
    "credit": ("credit", "haben", "crédit", "abono", "money in", "paid in", "credit amount",
               "deposits", "gutschrift"),
    "counterparty": ("payee", "name", "description", "beguenstigter/zahlungspflichtiger",
                     "auftraggeber/empfänger", "name zahlungsbeteiligter", "zahlungsempfänger*in",
                     "empfänger", "payee name", "counterparty", "beneficiary", "merchant",
                     "libellé", "libelle", "concepto", "partner name", "auftraggeber / begünstigter"),
    "memo": ("memo", "notes", "verwendungszweck", "purpose", "reference", "buchungstext",
             "payment reference", "details", "communication", "observaciones"),
}  # fmt: skip


def earlier_csv_columns(header: tuple[str, ...], remembered: Mapping[str, str]) -> dict[str, str]:
    """Return the column of each field; guesses were remembered like answers."""
    names_in_header = {name.lower(): name for name in reversed(header)}
    columns: dict[str, str] = {}
    for field, names in _COLUMN_NAMES.items():
        column = next((names_in_header[name] for name in names if name in names_in_header), None)
        if column is not None and column not in columns.values():
            columns[field] = column
    return columns | {field: name for field, name in remembered.items() if name in header}


def earlier_csv_key(keys: ContentKeys, row: Mapping[str, str], columns: Mapping[str, str]) -> str:
    fields = ("date", "amount", "debit", "credit", "counterparty", "memo")
    # A column that no cell of the row reaches, and one that the table lacks, differ.
    cells = (row.get(columns[f], "").strip() if f in columns else None for f in fields)
    return keys.key(EARLIER_CSV_ACCOUNT, *cells)


def earlier_ofx_key(keys: ContentKeys, account: str, elements: Mapping[str, str]) -> str:
    names = ("FITID", "DTPOSTED", "TRNAMT", "NAME", "MEMO")
    return keys.key(account, *(elements.get(name) for name in names))
