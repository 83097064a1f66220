"""Import QIF statements.

A transaction is lines that each begin with the letter of a field, followed by a line with a caret.
"""

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from importers.bank import amounts, records
from importers.bank.across_formats import once_across_formats
from importers.core import dates
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import (
    ExportFiles,
    Importer,
    Options,
    claim_by_start,
    detect_or_answer,
)
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
    issue_item,
)
from importers.core.text import decode

_LAYOUT = "qif"
"""All QIF files have one layout."""
FILE_MAX_BYTES = 16 * 1024 * 1024
_LETTERS = frozenset("DTUCNPMALSE$%FX")
"""The lines of a record begin with one of these."""
_TRANSACTION_TYPES = ("!type:bank", "!type:ccard", "!type:cash", "!type:oth a", "!type:oth l")

Transaction = tuple[str, int, dict[str, str]]


def _prepare(files: ExportFiles, options: Options) -> Options:
    """Find date order and decimal separator of each file. Raises ``ChoiceNeeded``."""
    used = dict[str, str]()
    for file in files:
        with contextlib.suppress(UnreadableError):
            _reading(file, options, used)
    return replace(options, answers={_LAYOUT: used} if used else {})


def _reading(file: ExportFile, options: Options, used: dict[str, str]) -> dict[str, str]:
    """Return date order and decimal separator, and add the answers that they depend on."""
    transactions = [fields for _, _, fields in _transactions(file)]
    written = [_normalize_date(fields.get("D", "")) for fields in transactions]
    texts = [fields.get("T") or fields.get("U") or "" for fields in transactions]
    decide: dict[str, Callable[..., str]] = {
        "date_order": partial(dates.detect_order, written, last_year=options.current_year + 1),
        "decimal": partial(amounts.detect_decimal_separator, texts, currency=None),
    }
    return {
        name: detect_or_answer(name, detect, options, _LAYOUT, used)
        for name, detect in decide.items()
    }


def _read_file(file: ExportFile, *, options: Options) -> ExportItems:
    reading = _reading(file, options, {})
    keys, accounts = ContentKeys("q_"), set[str]()
    if b"!TYPE:INVST" in file.read(max_bytes=FILE_MAX_BYTES).upper():
        yield issue_item(file.name, "", ReceiptCode.NOT_SUPPORTED, "investments")
    for line, text in _foreign_lines(file):
        yield issue_item(file.name, f"line {line:,}", ReceiptCode.MALFORMED, text[:40])
    count = sum(1 for _ in _transactions(file))
    if not count:
        raise UnreadableError(ReceiptCode.EMPTY)
    size = file.size // count
    for name, line, fields in _transactions(file):
        account = records.account_id("qif", name)
        if account not in accounts:
            accounts.add(account)
            record = records.account_record(account, name=name)
            yield ExportItem(file.name, "", 0, partial(ParsedItem, [record]))
        key = keys.key(account, *(fields.get(letter) for letter in "DTPMNL"))
        parse = partial(_transaction, fields, key=key, account=account, reading=reading)
        yield ExportItem(file.name, f"line {line:,}", size, parse)


def _transactions(file: ExportFile) -> Iterator[Transaction]:
    """Yield (account, line, fields by letter) of each transaction."""
    account, is_account, has_transactions = file.path.stem, False, True
    fields, first_line = dict[str, str](), 1
    for number, line in _lines(file):
        if line.startswith("!"):
            is_account = line.lower() == "!account"
            has_transactions = line.lower().startswith(_TRANSACTION_TYPES)
            fields, first_line = {}, number + 1
        elif line.startswith("^"):  # some programs end a record with ^^
            if is_account:
                account = fields.get("N") or account
            elif has_transactions and fields:
                yield account, first_line, fields
            fields, first_line = {}, number + 1
        elif line:
            fields.setdefault(line[0].upper(), line[1:].strip())
    if has_transactions and not is_account and fields:
        yield account, first_line, fields


def _lines(file: ExportFile) -> Iterator[tuple[int, str]]:
    text = decode(file.read(max_bytes=FILE_MAX_BYTES))
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        yield number, line.strip()


def _foreign_lines(file: ExportFile) -> Iterator[tuple[int, str]]:
    """Yield line numbers and texts of what is no QIF, such as a statement in another format.

    Lists of categories and securities have letters of their own.
    """
    has_transactions = True
    for number, line in _lines(file):
        if line.startswith("!"):
            has_transactions = line.lower().startswith(_TRANSACTION_TYPES)
        elif has_transactions and line:
            is_end = line[0] == "^" and not line.strip("^")
            if not is_end and line[0].upper() not in _LETTERS:
                yield number, line


def _normalize_date(text: str) -> str:
    """Replace the apostrophe that Quicken writes before years since 2000: 1/5'26."""
    return text.replace(" ", "").replace("'", "/")


def _transaction(
    fields: dict[str, str], *, key: str, account: str, reading: dict[str, str]
) -> ParsedItem:
    item = ParsedItem()
    amount_text = fields.get("T") or fields.get("U") or ""
    amount = amounts.parse_amount(amount_text, decimal_separator=reading["decimal"])
    if amount is None:
        raise UnreadableError(ReceiptCode.BAD_AMOUNT, detail=amount_text[:40] or "no amount")
    written = fields.get("D", "")
    on = item.require_date(
        dates.parse_date(_normalize_date(written), reading["date_order"]), written
    )
    item.records.append(
        records.transaction_record(
            key,
            account=account,
            on=on,
            amount=amount,
            counterparty=fields.get("P"),
            category=fields.get("L"),
            check_number=fields.get("N"),
            memo=fields.get("M"),
        )
    )
    return item


QIF = once_across_formats(
    Importer(
        claim=claim_by_start(b"!TYPE:", ".qif"),
        prepare=_prepare,
        read=lambda files, options: iter_items(files, partial(_read_file, options=options)),
    ),
    "q_",
)
