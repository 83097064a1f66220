"""Import CSV statements: detect charset, delimiter and header line, and map columns to fields."""

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
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ChoiceNeeded, ExportFiles, Importer, Options, claim_by_suffix
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
)
from importers.core.text import decode

FILE_MAX_BYTES = 16 * 1024 * 1024
MAX_ROWS = 500_000
MAX_LINES_PER_ROW = 50
LINE_MAX_CHARS = 100_000
_DELIMITERS = (";", ",", "\t", "|")
_HEAD_LINES = 40

COLUMN_NAMES: dict[str, tuple[str, ...]] = {
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
class CsvTable:
    """The header and the rows of a file, each row with its line number."""

    header: tuple[str, ...]
    rows: list[tuple[int, list[str]]]

    def column(self, name: str | None) -> Iterator[str]:
        if name is None:
            return
        index = self.header.index(name)
        yield from (row[index].strip() for _, row in self.rows if len(row) > index)


def read_table(file: ExportFile) -> CsvTable:
    """Parse a file. Raises ``UnreadableError`` when it has no header line."""
    text = decode(file.read(max_bytes=FILE_MAX_BYTES)).replace("\0", "")
    head = list(islice(io.StringIO(text), _HEAD_LINES))
    delimiter = max(
        _DELIMITERS, key=lambda mark: max((line.count(mark) for line in head), default=0)
    )
    nonempty = (
        (line, row) for line, row in _rows(text, delimiter) if any(cell.strip() for cell in row)
    )
    rows = list(islice(nonempty, MAX_ROWS + 1))
    if len(rows) > MAX_ROWS:
        raise UnreadableError(ReceiptCode.TOO_LARGE)
    header_index = _find_header([tuple(map(str.strip, row)) for _, row in rows[:_HEAD_LINES]])
    if header_index is None:
        raise UnreadableError(ReceiptCode.MALFORMED)
    header = tuple(map(str.strip, rows[header_index][1]))
    return CsvTable(header, [(line, row) for line, row in rows[header_index + 1 :] if len(row) > 1])


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of its last line.

    A quotation mark that is not closed within MAX_LINES_PER_ROW is taken literally; otherwise the
    row would swallow the rest of the file.
    """
    source, number = io.StringIO(text, newline=""), 0
    while True:
        position, row_lines = source.tell(), _RowLines(source)
        reader = csv.reader(row_lines, delimiter=delimiter)
        try:
            row = next(reader, None)
        except csv.Error:
            row = []
        if row is None:
            return
        if row_lines.is_exhausted or not row:
            source.seek(position)
            line = source.readline()
            row = [cell.strip().strip('"') for cell in line[:LINE_MAX_CHARS].split(delimiter)]
        number += 1 if row_lines.is_exhausted else reader.line_num
        yield number, row


class _RowLines:
    """Limits a row to MAX_LINES_PER_ROW. ``is_exhausted``: the row continues after them."""

    def __init__(self, source: io.StringIO) -> None:
        self._source = source
        self._remaining = MAX_LINES_PER_ROW
        self.is_exhausted = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = self._source.readline() if self._remaining else ""
        self.is_exhausted = not line and self._remaining < MAX_LINES_PER_ROW
        self._remaining -= 1
        if not line:
            raise StopIteration
        return line


def _find_header(rows: list[tuple[str, ...]]) -> int | None:
    """Return the index of the first row with known column names, or of the first likely header."""
    for index, names in enumerate(rows):
        if {"date", "amount"} <= guess_columns(names).keys():
            return index
    width = max((len(row) for row in rows), default=0)
    return next(
        (i for i, row in enumerate(rows) if len(row) == width and _is_likely_header(row)), None
    )


def _is_likely_header(row: tuple[str, ...]) -> bool:
    """Return whether the row has several names, and no amount or date."""
    names = [name for name in row if name]
    return len(names) >= 2 and not any(any(c.isdigit() for c in name[:2]) for name in names)


def guess_columns(header: tuple[str, ...]) -> dict[str, str]:
    """Return the column of each field whose column name is known."""
    columns_by_name = {name.lower(): name for name in reversed(header)}
    columns: dict[str, str] = {}
    for field, names in COLUMN_NAMES.items():
        column = next((columns_by_name[name] for name in names if name in columns_by_name), None)
        if column is not None and column not in columns.values():
            columns[field] = column
    return columns


DECIMAL_SEPARATOR = "decimal"
"""Key of the decimal separator, which is stored with the columns."""
_DECIMALS = re.compile(r"\d([.,])\d{1,2}\D*$")


def _prepare(files: ExportFiles, options: Options) -> Options:
    """Map the columns of the first readable file; they apply to all files."""
    for file in files:
        try:
            table = read_table(file)
        except UnreadableError:
            continue
        columns = _map_columns(table, options)
        date_order = dates.detect_date_order(
            table.column(columns["date"]),
            years=range(1970, options.horizon_year + 1),
            chosen=options.date_order,
        )
        return replace(options, columns=columns, date_order=date_order)
    return options


def _map_columns(table: CsvTable, options: Options) -> dict[str, str]:
    """Map fields to columns: chosen columns that the file has, and guesses for other fields."""
    chosen = {
        field: column
        for field, column in options.columns.items()
        if column in table.header or field == DECIMAL_SEPARATOR
    }
    columns = guess_columns(table.header) | chosen
    if "date" not in columns or not columns.keys() & {"amount", "debit", "credit"}:
        raise ChoiceNeeded(
            "Which columns are the date and the amount?",
            evidence=["The columns are: " + ", ".join(filter(None, table.header))]
            + [", ".join(row) for _, row in table.rows[:2]],
            flag="--column date=NAME --column amount=NAME (or debit= and credit=), and optionally"
            " counterparty=, memo=, currency=, category=",
        )
    if DECIMAL_SEPARATOR not in columns and (mark := _detect_decimal_separator(table, columns)):
        columns[DECIMAL_SEPARATOR] = mark
    return columns


def _detect_decimal_separator(table: CsvTable, columns: dict[str, str]) -> str | None:
    """Return the separator of the first amount that ends with one or two decimals."""
    for name in ("amount", "debit", "credit"):
        for text in table.column(columns.get(name)):
            if match := _DECIMALS.search(text):
                return match[1]
    return None


def _read_file(file: ExportFile, *, options: Options) -> ExportItems:
    table = read_table(file)
    columns = {field: name for field, name in options.columns.items() if name in table.header}
    if "date" not in columns:
        raise UnreadableError(ReceiptCode.MALFORMED, detail="columns differ from the first file")
    account = records.account_id("csv")
    record = records.account_record(account, name="Account")
    yield ExportItem(file.name, "", 0, partial(ParsedItem, [record]))
    keys = ContentKeys("v_")
    size = file.size // max(1, len(table.rows))
    for line, cells in table.rows:
        row = dict(zip(table.header, cells, strict=False))
        fields = {field: row.get(name, "").strip() for field, name in columns.items()}
        identity = ("date", "amount", "debit", "credit", "counterparty", "memo")
        key = keys.key(account, *(fields.get(name) for name in identity))
        parse = partial(_transaction, fields, key=key, account=account, options=options)
        yield ExportItem(file.name, f"line {line:,}", size, parse)


def _transaction(fields: dict[str, str], *, key: str, account: str, options: Options) -> ParsedItem:
    item = ParsedItem()
    amount = _amount(fields, options.columns.get(DECIMAL_SEPARATOR))
    if amount is None:
        text = fields.get("amount") or fields.get("debit") or fields.get("credit") or ""
        raise UnreadableError(ReceiptCode.BAD_AMOUNT, detail=text[:40])
    on = _date(fields["date"], options.date_order or "ymd")
    if on is None:
        item.add_issue(ReceiptCode.BAD_DATE, detail=fields["date"][:40])
    texts = {name: fields.get(name) for name in (
        "currency", "counterparty", "counterparty_account", "kind", "category", "check_number",
        "memo",
    )}  # fmt: skip
    item.records.append(
        records.transaction_record(key, account=account, on=on, amount=amount, **texts)
    )
    return item


def _date(text: str, order: str) -> date | None:
    written = dates.parse_written_date(text)
    return dates.to_date(written, order) if written else None


def _amount(fields: dict[str, str], separator: str | None) -> Decimal | None:
    """Return the signed amount from one column, or credit minus debit from two."""
    if fields.get("amount"):
        return records.parse_amount(fields["amount"], decimal_separator=separator)
    debit = records.parse_amount(fields.get("debit") or "", decimal_separator=separator)
    credit = records.parse_amount(fields.get("credit") or "", decimal_separator=separator)
    if debit is None and credit is None:
        return None
    return (credit or Decimal()) - abs(debit or Decimal())


CSV = Importer(
    claim=claim_by_suffix(".csv", ".tsv"),
    prepare=_prepare,
    read=lambda files, options: iter_items(files, partial(_read_file, options=options)),
)
