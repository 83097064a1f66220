"""The rows of a CSV statement, with the key, the account and the currency of each.

Wise's list of transfers, which have two sides, becomes a statement of balances first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from importers.bank import amounts
from importers.bank.amounts import BALANCE_TEXT
from importers.bank.csv_accounts import FoundAccount, find_iban, named_account, number_account
from importers.bank.csv_columns import plain_name
from importers.bank.csv_readings import CsvReading
from importers.bank.csv_table import CsvTable
from importers.core.results import ContentKeys

_KEY_FIELDS = (
    "date",
    "amount",
    "debit",
    "credit",
    "currency",
    "counterparty",
    "memo",
    "identifier",
)


@dataclass(frozen=True, slots=True)
class CsvRow:
    """A row with its key, and its texts by field.

    ``details`` are the cells of columns without a field, with their headers.
    """

    line: int
    key: str
    fields: dict[str, str]
    account: FoundAccount
    currency: str | None
    is_complete: bool
    is_balance: bool
    details: list[tuple[str, str]]


def iter_rows(table: CsvTable, reading: CsvReading) -> Iterator[CsvRow]:
    keys, width = ContentKeys("t_"), len(table.header)
    edges = {line for line, _ in table.rows[:2] + table.rows[-3:]}
    for line, cells, by_name, fields in iter_cells(table, reading):
        currency = row_currency(fields, reading)
        account = row_account(by_name, fields, reading, currency)
        key = keys.key(account.key, *(fields.get(name) for name in _KEY_FIELDS))
        is_complete = not any(cells[width:])
        is_balance = line in edges and any(map(BALANCE_TEXT.fullmatch, cells))
        details = [
            (table.header[index], cells[index])
            for index in reading.other_columns
            if len(cells) > index and cells[index]
        ]
        yield CsvRow(line, key, fields, account, currency, is_complete, is_balance, details)


def iter_cells(
    table: CsvTable, reading: CsvReading
) -> Iterator[tuple[int, list[str], dict[str, str], dict[str, str]]]:
    """Yield line, cells, cells by column name, and texts by field of each row."""
    for line, cells in table.rows:
        if tuple(cells) == table.header:
            continue
        by_name = dict(zip(table.header, cells, strict=False))
        fields = {f: cells[i] if len(cells) > i else "" for f, i in reading.columns.items()}
        fields["indicator"] = (
            cells[reading.indicator]
            if reading.indicator is not None and len(cells) > reading.indicator
            else ""
        )
        yield line, cells, by_name, fields


def row_currency(fields: dict[str, str], reading: CsvReading) -> str | None:
    written = fields.get("currency", "").strip().upper()
    if written:
        return amounts.currency_code(written) or written[:3]
    text = next((fields[f] for f in ("amount", "debit", "credit") if fields.get(f)), "")
    parsed = amounts.parse_written(text)
    return (parsed.currency if parsed else None) or reading.currency


def row_account(
    row: dict[str, str], fields: dict[str, str], reading: CsvReading, currency: str | None
) -> FoundAccount:
    """Return the account of a row: a column names it, or each currency of the bank is one."""
    if number := fields.get("account"):
        is_number = find_iban(number) or sum(map(str.isdigit, number)) >= 4
        bank = reading.bank.name if reading.bank else None
        return number_account(number, bank=bank) if is_number else named_account(number)
    if reading.bank and reading.bank.pockets:
        plain = {plain_name(name)[0]: cell for name, cell in row.items()}
        parts = [
            currency if "currency" in p or p in ("wahrung", "devise") else plain.get(p)
            for p in reading.bank.pockets
        ]
        return named_account(" ".join([reading.bank.name, *filter(None, parts)]))
    return reading.account


_HEADER = ("TransferWise ID", "Status", "Date", "Amount", "Currency", "Payee Name",
           "Payment Reference", "Running Balance")  # fmt: skip
_REQUIRED = {"direction", "source amount (after fees)", "target amount (after fees)"}


def unfold_wise_history(table: CsvTable) -> CsvTable:
    """Return a row for each balance that a transfer changes; other tables are returned unchanged.

    Money that goes out takes its fee along; a conversion changes two balances.
    """
    names = [plain_name(name)[0] for name in table.header]
    if not set(names) >= _REQUIRED:
        return table
    rows = []
    for line, cells in table.rows:
        rows += [(line, row) for row in _movements(dict(zip(names, cells, strict=False)))]
    return CsvTable(table.preamble, _HEADER, rows, table.rest)


def _movements(row: dict[str, str]) -> Iterator[list[str]]:
    direction = row.get("direction", "").upper()
    date = row.get("finished on") or row.get("created on", "")
    if direction != "IN":
        amount = _number(row, "source amount (after fees)") + _number(row, "source fee amount")
        yield _row(row, date, -amount, "source currency", "target name")
    if direction != "OUT":
        amount = _number(row, "target amount (after fees)")
        yield _row(row, date, amount, "target currency", "source name")


def _row(row: dict[str, str], date: str, amount: Decimal, currency: str, name: str) -> list[str]:
    written = f"{amount:+f}" if amount.is_finite() else ""
    return [row.get("id", ""), row.get("status", ""), date, written, row.get(currency, ""),
            row.get(name, ""), row.get("reference", ""), ""]  # fmt: skip


def _number(row: dict[str, str], name: str) -> Decimal:
    try:
        return Decimal(row.get(name) or "0")
    except InvalidOperation:
        return Decimal("NaN")
