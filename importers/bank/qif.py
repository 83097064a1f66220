"""Import QIF statements.

A transaction is lines that each begin with the letter of a field, followed by a line with a caret.
"""

import contextlib
import io
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain

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

_USED = frozenset("DTUPLNM")
_NAMES = {"A": "Address", "C": "Cleared", "S": "Split", "E": "Split memo", "$": "Split amount",
          "%": "Split percent"}  # fmt: skip

Lines = list[tuple[str, str]]
Transaction = tuple[str, int, Lines]


def _prepare(files: ExportFiles, options: Options) -> Options:
    """Find date order and decimal separator of each file. Raises ``ChoiceNeeded``."""
    used = dict[str, str]()
    for file in files:
        with contextlib.suppress(UnreadableError):
            _reading(file, options, used)
    return replace(options, answers={_LAYOUT: used} if used else {})


def _reading(file: ExportFile, options: Options, used: dict[str, str]) -> dict[str, str]:
    """Return date order and decimal separator, and add the answers that they depend on."""
    transactions = [_first(lines) for _, _, lines in _parse(file)[0]]
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
    transactions, foreign, lists = _parse(file)
    for kind, count in lists.items():
        yield issue_item(file.name, "", ReceiptCode.NOT_SUPPORTED, f"{kind[:40]}: {count:,}")
    for line, text in foreign:
        yield issue_item(file.name, f"line {line:,}", ReceiptCode.MALFORMED, text[:40])
    if not transactions:
        raise UnreadableError(ReceiptCode.EMPTY)
    size = file.size // len(transactions)
    for name, line, lines in transactions:
        account = records.account_id("qif", name)
        if account not in accounts:
            accounts.add(account)
            record = records.account_record(account, name=name)
            yield ExportItem(file.name, "", 0, partial(ParsedItem, [record]))
        key = keys.key(account, *(_first(lines).get(letter) for letter in "DTPMNL"))
        parse = partial(_transaction, lines, key=key, account=account, reading=reading)
        yield ExportItem(file.name, f"line {line:,}", size, parse)


def _parse(file: ExportFile) -> tuple[list[Transaction], list[tuple[int, str]], Counter[str]]:
    """Return (account, line, its lines by letter) of each transaction, and the lines that are no QIF.

    Counts the entries of other lists by kind, such as categories, whose letters are their own.
    """
    account, is_account, has_transactions = file.path.stem, False, True
    lines, first_line, kind = Lines(), 1, ""
    lists = Counter[str]()
    found: list[Transaction] = []
    foreign: list[tuple[int, str]] = []
    text = decode(file.read(max_bytes=FILE_MAX_BYTES))
    for number, written in enumerate(chain(io.StringIO(text, newline=None), "^"), 1):
        line = written.strip()
        is_end = line.startswith("^")
        letters = line.strip("^") if is_end else line[:1].upper()  # some records end with ^^
        if has_transactions and letters and (is_end or letters not in _LETTERS | {"!"}):
            foreign.append((number, line))
        if line.startswith("!"):
            is_account = line.lower() == "!account"
            kind = re.sub("^!(type:)?", "", line, flags=re.I)
            has_transactions = line.lower().startswith(_TRANSACTION_TYPES)
            lines, first_line = [], number + 1
        elif is_end:
            if is_account and _is_account(lines):
                account = _first(lines).get("N") or account
            elif (has_transactions or is_account) and lines:
                found.append((account, first_line, lines))
            elif lines:
                lists[kind] += 1
            lines, first_line = [], number + 1
        elif line:
            lines.append((line[0].upper(), line[1:].strip()))
    return found, foreign, lists


def _is_account(lines: Lines) -> bool:
    """Return whether an entry of a list of accounts is one: Quicken lets bookings follow there.

    The letter T is the kind of an account, and the amount of a booking.
    """
    fields = _first(lines)
    kind = fields.get("T") or fields.get("U", "")
    is_amount = any(map(str.isdigit, kind)) and not any(map(str.isalpha, kind))
    return not lines or ("N" in fields and not is_amount)


def _first(lines: Lines) -> dict[str, str]:
    """Return the first text of each letter."""
    return dict(reversed(lines))


def _normalize_date(text: str) -> str:
    """Replace the apostrophe that Quicken writes before years since 2000: 1/5'26."""
    return text.replace(" ", "").replace("'", "/")


def _transaction(lines: Lines, *, key: str, account: str, reading: dict[str, str]) -> ParsedItem:
    item, fields = ParsedItem(), _first(lines)
    used = {(letter, text) for letter, text in fields.items() if letter in _USED}
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
            details=[
                (_NAMES.get(letter, letter), text)
                for letter, text in lines
                if text and (letter, text) not in used
            ],
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
