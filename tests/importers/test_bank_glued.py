"""Two statements in one file give the bookings of both, or say which rows they leave out."""

from collections import Counter
from pathlib import Path

import pytest

from importers.bank.camt import CAMT
from importers.bank.csv_statements import CSV
from importers.bank.mt940_statements import MT940
from importers.bank.ofx import OFX
from importers.bank.qif import QIF
from importers.core.export_files import open_export
from importers.core.importer import ChoiceNeeded, Options
from importers.core.receipt_texts import RECEIPT_TEXTS
from importers.core.results import UnreadableError
from tests.importers.bank_layouts import LAYOUTS, Layout
from tests.importers.test_bank_across_formats import CAMT as CAMT_TEXT
from tests.importers.test_bank_across_formats import MT940 as MT940_TEXT
from tests.importers.test_bank_across_formats import OFX_BOOKINGS
from tests.importers.test_bank_formats import document, ofx

pytestmark = pytest.mark.slow

QIF_TEXT = "!Type:Bank\nD13.01.2026\nT-1.234,56\nPA\n^\nD14.01.2026\nT-2,00\nPB\n^\n"
FOUR = [("2026-01-05", -42.0), ("2026-01-06", -9.99), ("2026-01-06", -9.99), ("2026-01-31", 2000.0)]
QIF_BOOKINGS = [("2026-01-13", -1234.56), ("2026-01-14", -2.0)]


def layout(file: str, text: str, found: list[tuple[str, float]], currency: str | None) -> Layout:
    return Layout(file, text.encode(), [(day, amount, currency, "") for day, amount in found])


ALL = {
    **LAYOUTS,
    "OFX": layout("giro.ofx", document(ofx(*OFX_BOOKINGS)), FOUR, "EUR"),
    "MT940": layout("giro.sta", MT940_TEXT, FOUR, "EUR"),
    "camt": layout("giro.xml", CAMT_TEXT, FOUR, "EUR"),
    "QIF": layout("giro.qif", QIF_TEXT, QIF_BOOKINGS, None),
}
IMPORTERS = (OFX, CAMT, MT940, QIF, CSV)


def read(path: Path) -> tuple[Counter[tuple[object, ...]], bool]:
    """Return the bookings of a file, and whether the import says that something is left out."""
    found, is_complete = Counter[tuple[object, ...]](), True
    files = open_export(path).files
    importer = next((each for each in IMPORTERS if each.claim(files)), None)
    if importer is None:
        return found, False
    try:
        options = importer.prepare(files, Options())
    except ChoiceNeeded:
        return found, False
    is_complete = not options.unclaimed
    for item in importer.read(files, options):
        try:
            parsed = item.parse()
        except UnreadableError:
            is_complete = False
            continue
        is_complete &= all(RECEIPT_TEXTS[issue.code].is_imported for issue in parsed.issues)
        rows = [record.data for record in parsed.records if record.stream == "transactions"]
        found.update((row["date"], row["amount"], row["currency"]) for row in rows)
    return found, is_complete


def expected(*layouts: Layout) -> Counter[tuple[object, ...]]:
    return Counter(booking[:3] for each in layouts for booking in each.bookings)


def wrong(path: Path, first: Layout, second: Layout) -> str | None:
    """Return what is wrong with the bookings of a file of both."""
    found, is_complete = read(path)
    left = expected(first, second)
    # Some layouts do not say their currency.
    for day, amount, currency in list(found):
        known = (day, amount, currency) if (day, amount, currency) in left else (day, amount, None)
        if left[known] < found[day, amount, currency]:
            return f"{day} {amount} {currency}"
        left[known] -= found[day, amount, currency]
    return f"{left.total()} bookings without a word" if left.total() and is_complete else None


@pytest.mark.parametrize("join", ["line", "no line end"])
@pytest.mark.parametrize("first", ALL.values(), ids=ALL.keys())
def test_glued_statements_have_no_wrong_booking(tmp_path: Path, first: Layout, join: str) -> None:
    head = first.content if join == "line" else first.content.rstrip()
    found = {}
    for number, (name, second) in enumerate(ALL.items()):
        path = tmp_path / str(number) / first.file
        path.parent.mkdir()
        path.write_bytes(head + second.content)
        found[name] = wrong(path, first, second)

    assert {name: each for name, each in found.items() if each} == {}
