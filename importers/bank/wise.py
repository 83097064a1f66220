"""Turn Wise's list of transfers, which have two sides, into a statement of balances."""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from importers.bank.csv_columns import plain_name
from importers.bank.csv_table import CsvTable

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
