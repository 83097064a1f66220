"""CSV as banks write it: any charset, any mark between the columns, and lines of prose before the
line that names them."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Self

from evidence.importing.codes import Code
from evidence.importing.exports import Entry
from evidence.importing.items import UnreadableError
from evidence.importing.texts import decoded

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
