"""CSV statements: which column is what is guessed from its name, or said once and remembered."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Self

from importers.bank import records
from importers.core import dates
from importers.core.export_files import Entry, each
from importers.core.importer import ChoiceNeeded, Entries, Kind, Options, by_suffix
from importers.core.results import Code, Item, Piece, Pieces, Repeated, UnreadableError
from importers.core.text import decoded

FILE_BYTES = 16 * 1024 * 1024
ROWS_MOST = 500_000
LINES_OF_A_ROW = 50
LINE_CHARS = 100_000
_MARKS = (";", ",", "\t", "|")
_HEAD_LINES = 40

NAMES: dict[str, tuple[str, ...]] = {
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
    "currency": ("currency", "währung", "waehrung", "devise", "moneda", "divisa"),
    "counterparty_account": ("iban", "kontonummer/iban", "iban zahlungsbeteiligter", "partner iban",
                             "account number", "kontonummer"),
    "category": ("category", "kategorie", "catégorie", "categoría"),
    "kind": ("type", "transaction type", "umsatztyp", "umsatzart", "buchungsart"),
    "check_number": ("check number", "check or slip #", "cheque number"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """``rows`` come with the numbers of their lines."""

    header: tuple[str, ...]
    rows: list[tuple[int, list[str]]]

    def column(self, name: str | None) -> Iterator[str]:
        if name is None:
            return
        at = self.header.index(name)
        yield from (row[at].strip() for _, row in self.rows if len(row) > at)


def read(entry: Entry) -> Table:
    """Raises ``UnreadableError`` where there is no line that names columns."""
    text = decoded(entry.read(most=FILE_BYTES)).replace("\0", "")
    head = list(islice(io.StringIO(text), _HEAD_LINES))
    mark = max(_MARKS, key=lambda each: max((line.count(each) for line in head), default=0))
    found = (each for each in _rows(text, mark) if any(cell.strip() for cell in each[1]))
    numbered = list(islice(found, ROWS_MOST + 1))
    if len(numbered) > ROWS_MOST:
        raise UnreadableError(Code.TOO_LARGE)
    at = _header_at([tuple(map(str.strip, row)) for _, row in numbered[:_HEAD_LINES]])
    if at is None:
        raise UnreadableError(Code.MALFORMED)
    header = tuple(map(str.strip, numbered[at][1]))
    return Table(header, [each for each in numbered[at + 1 :] if len(each[1]) > 1])


def _rows(text: str, mark: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its last line. A quote that does not end within LINES_OF_A_ROW
    would take all other rows with it, so it stands for itself."""
    source, number = io.StringIO(text, newline=""), 0
    while True:
        at, taken = source.tell(), _Taken(source)
        lines = csv.reader(taken, delimiter=mark)
        try:
            row = next(lines, None)
        except csv.Error:
            row = []
        if row is None:
            return
        if taken.is_over or not row:
            source.seek(at)
            line = source.readline()
            row = [cell.strip().strip('"') for cell in line[:LINE_CHARS].split(mark)]
        number += 1 if taken.is_over else lines.line_num
        yield number, row


class _Taken:
    """The lines that one row may take. ``is_over``: it wanted more."""

    def __init__(self, source: io.StringIO) -> None:
        self._source = source
        self._left = LINES_OF_A_ROW
        self.is_over = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = self._source.readline() if self._left else ""
        self.is_over = not line and self._left < LINES_OF_A_ROW
        self._left -= 1
        if not line:
            raise StopIteration
        return line


def _header_at(rows: list[tuple[str, ...]]) -> int | None:
    """The first line with names that we know, else the first with names of as many columns as any
    line has."""
    for at, names in enumerate(rows):
        if {"date", "amount"} <= guessed(names).keys():
            return at
    widest = max((len(row) for row in rows), default=0)
    likely = (at for at, row in enumerate(rows) if len(row) == widest and _is_header(row))
    return next(likely, None)


def _is_header(names: tuple[str, ...]) -> bool:
    """Several names, and nothing among them that is an amount or a date."""
    named = [name for name in names if name]
    return len(named) >= 2 and not any(any(c.isdigit() for c in name[:2]) for name in named)


def guessed(header: tuple[str, ...]) -> dict[str, str]:
    """Which column is what, as far as its name says so."""
    known = {name.lower(): name for name in reversed(header)}
    found: dict[str, str] = {}
    for ours, theirs in NAMES.items():
        name = next((known[each] for each in theirs if each in known), None)
        if name is not None and name not in found.values():
            found[ours] = name
    return found


DECIMAL = "decimal"
"""Not a column: the mark before the cents."""
_CENTS = re.compile(r"\d([.,])\d{1,2}\D*$")


def _prepare(entries: Entries, options: Options) -> Options:
    """Columns of the first file are those of all."""
    for entry in entries:
        try:
            table = read(entry)
        except UnreadableError:
            continue
        columns = _columns(table, options)
        order = dates.order_of(
            table.column(columns["date"]),
            years=range(1970, options.horizon_year + 1),
            chosen=options.date_order,
        )
        return replace(options, columns=columns, date_order=order)
    return options


def _columns(table: Table, options: Options) -> dict[str, str]:
    """What was said counts, where the file has such columns; names are told for the rest."""
    said = {
        ours: theirs
        for ours, theirs in options.columns.items()
        if theirs in table.header or ours == DECIMAL
    }
    found = guessed(table.header) | said
    if "date" not in found or not found.keys() & {"amount", "debit", "credit"}:
        raise ChoiceNeeded(
            "Which column is the date, and which the amount?",
            evidence=["The columns are: " + ", ".join(filter(None, table.header))]
            + [", ".join(row) for _, row in table.rows[:2]],
            flag="--column date=NAME --column amount=NAME (or debit= and credit=), and what there"
            " is of counterparty=, memo=, currency=, category=",
        )
    if DECIMAL not in found and (mark := _decimal(table, found)):
        found[DECIMAL] = mark
    return found


def _decimal(table: Table, columns: dict[str, str]) -> str | None:
    """The mark that stands before one or two digits at an end anywhere in the file."""
    for name in ("amount", "debit", "credit"):
        for text in table.column(columns.get(name)):
            if found := _CENTS.search(text):
                return found[1]
    return None


def _read(entries: Entries, options: Options) -> Pieces:
    return each(entries, partial(_file, options=options))


def _file(entry: Entry, *, options: Options) -> Pieces:
    table = read(entry)
    columns = {ours: name for ours, name in options.columns.items() if name in table.header}
    if "date" not in columns:
        raise UnreadableError(Code.MALFORMED, detail="other columns than the file before it")
    account = records.account_id("csv")
    row = records.account(account, name="Account")
    yield Piece(entry.name, "", 0, partial(Item, [row]))
    keys = Repeated("v_")
    size = entry.size // max(1, len(table.rows))
    for line, cells in table.rows:
        cell_of = dict(zip(table.header, cells, strict=False))
        said = {ours: cell_of.get(name, "").strip() for ours, name in columns.items()}
        key = keys.key(
            account,
            *(said.get(n) for n in ("date", "amount", "debit", "credit", "counterparty", "memo")),
        )
        make = partial(_booking, said, key=key, account=account, options=options)
        yield Piece(entry.name, f"line {line:,}", size, make)


def _booking(said: dict[str, str], *, key: str, account: str, options: Options) -> Item:
    item = Item()
    amount = _amount(said, options.columns.get(DECIMAL))
    if amount is None:
        shown = said.get("amount") or said.get("debit") or said.get("credit") or ""
        raise UnreadableError(Code.BAD_AMOUNT, detail=shown[:40])
    on = _day(said["date"], options.date_order or "ymd")
    if on is None:
        item.remark(Code.BAD_DATE, detail=said["date"][:40])
    texts = {name: said.get(name) for name in (
        "currency", "counterparty", "counterparty_account", "kind", "category", "check_number",
        "memo",
    )}  # fmt: skip
    item.rows.append(records.transaction(key, account=account, on=on, amount=amount, **texts))
    return item


def _day(text: str, order: str) -> date | None:
    found = dates.triple(text)
    return dates.day(found, order) if found else None


def _amount(said: dict[str, str], decimal: str | None) -> Decimal | None:
    """One column with a sign, or one for what leaves and one for what comes."""
    if said.get("amount"):
        return records.amount_of(said["amount"], decimal=decimal)
    out = records.amount_of(said.get("debit") or "", decimal=decimal)
    into = records.amount_of(said.get("credit") or "", decimal=decimal)
    if out is None and into is None:
        return None
    return (into or Decimal()) - abs(out or Decimal())


CSV = Kind(
    name="csv",
    title="bank statements (CSV)",
    source="bank",
    label="Bank",
    claim=by_suffix(".csv", ".tsv"),
    prepare=_prepare,
    read=_read,
)
