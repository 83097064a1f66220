"""Import SWIFT MT940 statements; the library mt-940 parses each booking."""

import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

import mt940

from importers.bank import amounts, records
from importers.bank.across_formats import once_across_formats
from importers.bank.csv_accounts import FoundAccount, find_iban, format_account
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    Issue,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
    issues_only,
)
from importers.core.text import decode

FILE_MAX_BYTES = 16 * 1024 * 1024
_SUFFIXES = (".sta", ".mt940", ".940", ".swi", ".mt9")
_STATEMENT = re.compile(r"^(?:\{4:\s*)?:20:", re.MULTILINE)
_BOOKING = re.compile(r"^:61:", re.MULTILINE)
_END = re.compile(r"^(?::6[25][FM]?:|:64:|-\}?\s*$)", re.MULTILINE)
_FOREIGN = re.compile(r"^(?![:{]|-\}?\s*$).*[;,\t|<!^].*$", re.MULTILINE)
"""A line outside of a statement that has the signs of another format."""
_ACCOUNT = re.compile(r"^:25P?:(.*)$", re.MULTILINE)
_BALANCE = re.compile(r"^:62F:([CD])(\d{6})([A-Z]{3})([\d,]+)", re.MULTILINE)
_OPENING = re.compile(r"^:60[FM]:[CD]\d{6}([A-Z]{3})", re.MULTILINE)
_AMOUNT = re.compile(r"^:61:\d{6}(?:\d{4})?R?[CD][A-Z]?([\d,]*)", re.MULTILINE)
_DUTCH_NAME = re.compile(r"/NAME/([^/]+)/")
_SIGNS = {"C": 1, "RD": 1, "D": -1, "RC": -1}
"""A reversal of a debit (RD) arrives."""


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [
        file
        for file in files
        if file.suffix in _SUFFIXES
        or (file.suffix in (".txt", "") and _is_statement(file.head.decode("latin-1")))
    ]


def _is_statement(head: str) -> bool:
    return bool(_STATEMENT.search(head) and _ACCOUNT.search(head) and _OPENING.search(head))


def _read_file(file: ExportFile) -> ExportItems:
    text = decode(file.read(max_bytes=FILE_MAX_BYTES)).replace("\r\n", "\n").replace("\r", "\n")
    starts = [match.start() for match in _STATEMENT.finditer(text)]
    if not starts:
        raise UnreadableError(ReceiptCode.MALFORMED)
    keys = ContentKeys("m_")
    yield from _foreign_text(file.name, text[: starts[0]], 1)
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line = text.count("\n", 0, start) + 1
        size = file.size * (end - start) // len(text)
        yield from _statement(file.name, text[start:end], (line, size), keys)


def _statement(name: str, text: str, place: tuple[int, int], keys: ContentKeys) -> ExportItems:
    """Yield the account and the bookings of a statement; ``place`` is its first line and size."""
    line, size = place
    number = _ACCOUNT.search(text)
    if number is None:
        issue = Issue(ReceiptCode.NO_IDENTITY, "no account (:25:)")
        yield ExportItem(name, f"line {line:,}", size, issues_only([issue]))
        return
    bank, _, rest = number[1].strip().rpartition("/")
    account = format_account(bank, rest.strip())
    yield ExportItem(name, "", size, partial(ParsedItem, [_account_record(account, text, bank)]))
    header, *blocks = _BOOKING.split(text)
    position = line + header.count("\n")
    for block in blocks:
        end = _END.search(block)
        booking = f":61:{block[: end.start()] if end else block}"
        key = keys.key(account.key, *_identity(booking))
        parse = partial(_transaction, f"{header}{booking}", key, account=account.key)
        yield ExportItem(name, f"line {position:,}", 0, parse)
        if end:
            line = position + block.count("\n", 0, end.start())
            yield from _foreign_text(name, block[end.start() :], line)
        position += block.count("\n")


def _foreign_text(name: str, text: str, line: int) -> ExportItems:
    """Yield a receipt for text that is in no statement; lines of :86: are in one."""
    found = _FOREIGN.search(re.sub(r"(?m)^:86:(?:.*\n(?![:{-]))*", "", text))
    if found:
        issue = Issue(ReceiptCode.MALFORMED, f"beside the statement: {found[0][:40]}")
        yield ExportItem(name, f"line {line:,}", 0, issues_only([issue]))


def _identity(booking: str) -> Iterator[str]:
    """Yield what stays the same when the bank writes the booking again: not the layout of lines."""
    yield from (" ".join(part.split()) for part in booking.split(":86:"))


def _account_record(account: FoundAccount, text: str, bank: str) -> Any:
    opening, closing = _OPENING.search(text), _BALANCE.search(text)
    fields: dict[str, Any] = {"currency": opening[1] if opening else None, "bank": bank or None}
    if closing and (amount := amounts.parse_amount(closing[4], decimal_separator=",")) is not None:
        fields["balance"] = float(-amount if closing[1] == "D" else amount)
        digits = closing[2]
        fields["balance_on"] = f"20{digits[:2]}-{digits[2:4]}-{digits[4:]}"
    return records.account_record(account.key, name=account.name, **fields)


def _transaction(text: str, key: str, *, account: str) -> ParsedItem:
    try:
        (parsed,) = mt940.parse(text)
    except (
        ValueError,
        RuntimeError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
    ) as error:
        line = text[text.rindex(":61:") :].partition("\n")[0]
        raise UnreadableError(ReceiptCode.MALFORMED, detail=line[:40]) from error
    data: dict[str, Any] = parsed.data
    amount, currency = _signed_amount(text, data)
    on: date | None = data.get("entry_date") or data.get("date")
    item = ParsedItem()
    if on is None:
        item.add_issue(ReceiptCode.BAD_DATE)
    details = data.get("purpose") or data.get("transaction_details") or data.get("extra_details")
    dutch = _DUTCH_NAME.search(str(details or "").replace("\n", ""))
    other = str(data.get("applicant_name") or (dutch[1] if dutch else ""))
    iban = find_iban(other) or data.get("applicant_iban")
    item.records.append(
        records.transaction_record(
            key,
            account=account,
            on=date(on.year, on.month, on.day) if on else None,
            amount=amount,
            currency=currency,
            counterparty=other.removeprefix(iban or "").strip(),
            counterparty_account=iban,
            kind=data.get("posting_text"),
            reference=data.get("bank_reference") or data.get("customer_reference"),
            memo=details,
        )
    )
    return item


def _signed_amount(text: str, data: dict[str, Any]) -> tuple[Decimal, str | None]:
    """Return amount and currency. Raises ``UnreadableError``."""
    sign = _SIGNS.get(data.get("status", ""))
    if sign is None:
        raise UnreadableError(ReceiptCode.NOT_BOOKED, detail=str(data.get("status")))
    parsed, match = data.get("amount"), _AMOUNT.search(text)
    written = match[1].rstrip(",") if match else ""
    amount, currency = amounts.parse_amount(written, decimal_separator=","), data.get("currency")
    # The library cuts an amount that is longer than 15 characters.
    is_whole = parsed is not None and amount == abs(Decimal(parsed.amount))
    if amount is None or not is_whole or not amounts.fits_currency(amount, currency):
        raise UnreadableError(ReceiptCode.BAD_AMOUNT, detail=written[:40])
    return amount * sign, currency


def _read(files: ExportFiles, _options: Options) -> ExportItems:
    return iter_items(files, _read_file)


MT940 = once_across_formats(
    Importer(
        claim=_claim,
        read=_read,
    ),
    "m_",
)
