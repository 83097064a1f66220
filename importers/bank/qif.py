"""QIF: lines that begin with a letter, a caret after each booking, and dates as the program liked."""

import io
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from importers.bank import records
from importers.core import dates
from importers.core.export_files import Entry, each
from importers.core.importer import Entries, Kind, Options
from importers.core.results import Code, Item, Piece, Pieces, Repeated, UnreadableError
from importers.core.text import decoded

FILE_BYTES = 16 * 1024 * 1024
_TYPES = ("!type:bank", "!type:ccard", "!type:cash", "!type:oth a", "!type:oth l")

Booking = tuple[str, int, dict[str, str]]


def _claim(entries: Entries) -> list[Entry]:
    return [
        entry
        for entry in entries
        if entry.suffix == ".qif"
        or entry.head.lstrip(b"\xef\xbb\xbf \r\n")[:6].lower() == b"!type:"
    ]


def _prepare(entries: Entries, options: Options) -> Options:
    stated = (facts["D"] for entry in entries for _, _, facts in _bookings(entry) if "D" in facts)
    order = dates.order_of(
        map(_written, stated),
        years=range(1970, options.horizon_year + 1),
        chosen=options.date_order,
    )
    return replace(options, date_order=order)


def _read(entries: Entries, options: Options) -> Pieces:
    return each(entries, partial(_file, order=options.date_order or "ymd"))


def _file(entry: Entry, *, order: str) -> Pieces:
    keys, known = Repeated("q_"), set[str]()
    count = sum(1 for _ in _bookings(entry))
    if not count:
        raise UnreadableError(Code.EMPTY)
    size = entry.size // count
    for name, line, facts in _bookings(entry):
        account = records.account_id("qif", name)
        if account not in known:
            known.add(account)
            yield Piece(entry.name, "", 0, partial(Item, [records.account(account, name=name)]))
        key = keys.key(account, *(facts.get(letter) for letter in "DTPMNL"))
        make = partial(_booking, facts, key=key, account=account, order=order)
        yield Piece(entry.name, f"line {line:,}", size, make)


def _bookings(entry: Entry) -> Iterator[Booking]:
    """(account, line, values by letter) of each booking of the types that have any."""
    account, is_account, counts = entry.path.stem, False, True
    facts, began = dict[str, str](), 1
    text = io.StringIO(decoded(entry.read(most=FILE_BYTES)), newline=None)
    for number, raw in enumerate(text, 1):
        line = raw.strip()
        if line.startswith("!"):
            is_account = line.lower() == "!account"
            counts = line.lower().startswith(_TYPES)
            facts, began = {}, number + 1
        elif line == "^":
            if is_account:
                account = facts.get("N") or account
            elif counts and facts:
                yield account, began, facts
            facts, began = {}, number + 1
        elif line:
            facts.setdefault(line[0].upper(), line[1:].strip())
    if counts and not is_account and facts:
        yield account, began, facts


def _written(stated: str) -> str:
    """Quicken writes the years since 2000 after an apostrophe: 1/5'26."""
    return stated.replace(" ", "").replace("'", "/")


def _booking(facts: dict[str, str], *, key: str, account: str, order: str) -> Item:
    item = Item()
    stated = facts.get("T") or facts.get("U") or ""
    amount = records.amount_of(stated)
    if amount is None:
        raise UnreadableError(Code.BAD_AMOUNT, detail=stated[:40])
    found = dates.triple(_written(facts.get("D", "")))
    on = dates.day(found, order) if found else None
    if on is None:
        item.remark(Code.BAD_DATE, detail=facts.get("D", "")[:40])
    item.rows.append(
        records.transaction(
            key,
            account=account,
            on=on,
            amount=amount,
            counterparty=facts.get("P"),
            category=facts.get("L"),
            check_number=facts.get("N"),
            memo=facts.get("M"),
        )
    )
    return item


QIF = Kind(
    name="qif",
    title="bank statements (QIF)",
    source="bank",
    label="Bank",
    claim=_claim,
    prepare=_prepare,
    read=_read,
)
