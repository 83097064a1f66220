"""Helpers that write bank statements and read the stored bookings."""

from decimal import Decimal
from pathlib import Path
from typing import Any

from importers.bank.csv_statements import CSV
from importers.core.export_files import open_export
from importers.core.importer import Options
from tests.importers.imports import records, run


def put(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


def run_confirmed(path: Path, *, column: tuple[str, ...] = (), **options: Any) -> str:
    """Import a table as an owner who accepts what the menus suggest, apart from ``column``."""
    (sample,) = CSV.sample(open_export(path).files, Options())
    suggested = [f"{name}={header}" for name, header in sample.columns.items()]
    return run(path, column=[*suggested, *column], **options)


def bookings() -> list[tuple[str, Decimal, str]]:
    """Return (date, amount, currency) of all transactions, in order."""
    return sorted(
        (record["date"], Decimal(str(record["amount"])), record["currency"] or "")
        for record in records("transactions")
    )


def account_names() -> dict[str, str | None]:
    return {record["name"]: record["currency"] for record in records("accounts")}
