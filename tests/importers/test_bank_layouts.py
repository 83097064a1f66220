"""Statements of many banks, and files whose form leaves one reading only, are read as they are."""

from collections import Counter
from contextlib import suppress
from decimal import Decimal
from itertools import combinations
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from tests.importers.bank_layouts import LAYOUTS, Layout
from tests.importers.imports import receipts, records, run
from tests.importers.test_bank_formats import booking, document, ofx
from tests.importers.torture_kit import read_directly, read_stream

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def bookings() -> list[tuple[str, Decimal]]:
    """Return (date, amount) of all transactions, in order."""
    return sorted((row["date"], Decimal(str(row["amount"]))) for row in records("transactions"))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_statement_has_the_bookings_that_a_person_reads(tmp_path: Path, layout: Layout) -> None:
    result = read_directly("csv", put(tmp_path / layout.file, layout.content))

    bookings = (record for record in result.records if "account_id" in record)
    found = sorted(bookings, key=lambda row: (row["date"], row["amount"]))
    expected = sorted(layout.bookings)
    rows = [(row["date"], row["amount"], row["currency"], row["counterparty"]) for row in found]
    assert [row[:2] for row in rows] == [row[:2] for row in expected]
    for row, (_, _, currency, other_side) in zip(rows, expected, strict=True):
        assert currency is None or row[2] == currency
        assert not other_side or row[3] == other_side


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_cut_statement_has_no_booking_that_the_whole_one_has_not(
    tmp_path: Path, layout: Layout
) -> None:
    content = layout.content[: int(len(layout.content) * 0.9)]
    # The cut line can end within an amount, which nothing shows.
    path = put(tmp_path / layout.file, content[: content.rfind(b"\n") + 1])

    with suppress(CommandError):
        run(path)

    expected = {(date, amount) for date, amount, _, _ in layout.bookings}
    assert {(row["date"], row["amount"]) for row in records("transactions")} <= expected


def test_second_table_in_a_file_has_receipts(tmp_path: Path) -> None:
    run(put(tmp_path / "giro.csv", (
        "Date,Payee,Amount\n2026-01-13,A,-1.50\nDate,Payee,Amount\n2026-01-14,B,-2.50\n"
        "Details,Date,Payee,Debit,Credit\nx,2026-01-15,C,12.50,\n"
    )))  # fmt: skip

    assert [str(amount) for _, amount in bookings()] == ["-1.5", "-2.5"]
    assert receipts() == {("malformed", "line 5"), ("malformed", "line 6")}


HEAD = "Date,Payee,Amount"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # An empty cell of currencies is not the currency of others.
        ("Date,Payee,Amount,Currency\n2026-01-13,A,-1.50,\n2026-01-14,B,-2.50,USD\n",
         [None, "USD"]),
        ("Date,Payee,Amount,Currency\n2026-01-13,A,-1.50,€\n2026-01-14,B,-2.50,€\n",
         ["EUR", "EUR"]),
        # Valuta is the day of the value here.
        ("Datum;Name;Valuta;Betrag;Munt\n13.01.2026;A;13.01.2026;-1,50;EUR\n"
         "14.01.2026;B;14.01.2026;-2,50;EUR\n", ["EUR", "EUR"]),
    ],
)  # fmt: skip
def test_currency_is_that_of_the_row(tmp_path: Path, text: str, expected: list[str | None]) -> None:
    run(put(tmp_path / "giro.csv", text))

    found = sorted(records("transactions"), key=lambda row: str(row["date"]))
    assert [row["currency"] for row in found] == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        # The opening quotation mark is never closed.
        ('2026-01-13,"A,-1.50\n2026-01-14,B,-2.50\n2026-01-15,"C",-3.50\n',
         ["-1.5", "-2.5", "-3.5"]),
        ('2026-01-13,"A ""x"" y",-1.50\n2026-01-14,6" pipe,-2.50\n', ["-1.5", "-2.5"]),
        # A balance with a day, at the end or the beginning.
        ("2026-01-13,A,-1.50\n2026-01-31,Closing balance,98.50\n", ["-1.5"]),
        ("2026-01-01,Saldo inicial,100.00\n2026-01-13,A,-1.50\n", ["-1.5"]),
        ("28012026,A,-1.50\n03022026,B,-2.50\n", ["-1.5", "-2.5"]),
    ],
)  # fmt: skip
def test_rows_are_those_of_the_bank(tmp_path: Path, rows: str, expected: list[str]) -> None:
    run(put(tmp_path / "giro.csv", f"{HEAD}\n{rows}"))

    assert [str(amount) for _, amount in bookings()] == expected


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        (("28. marraskuuta 2025", "4. maaliskuuta 2026"), ["2025-11-28", "2026-03-04"]),
        (("28 mrt 2025", "3 mei 2025"), ["2025-03-28", "2025-05-03"]),
        (("28 paź 2025", "9 lis 2025"), ["2025-10-28", "2025-11-09"]),
        (("5 Ağustos 2025", "8 Ekim 2025"), ["2025-08-05", "2025-10-08"]),
        (("28012026", "03022026"), ["2026-01-28", "2026-02-03"]),
        (("28. srpna 2025", "3. září 2025"), ["2025-08-28", "2025-09-03"]),
        (("28. června 2025", "3. července 2025"), ["2025-06-28", "2025-07-03"]),
        (("28. červen 2025", "3. červenec 2025"), ["2025-06-28", "2025-07-03"]),
        (("28. čvn 2025", "3. čvc 2025"), ["2025-06-28", "2025-07-03"]),
        (("28. ledna 2026", "3. února 2026"), ["2026-01-28", "2026-02-03"]),
        (("28. března 2026", "3. dubna 2026"), ["2026-03-28", "2026-04-03"]),
        (("28. května 2026", "3. října 2026"), ["2026-05-28", "2026-10-03"]),
        (("28. listopadu 2025", "3. prosince 2025"), ["2025-11-28", "2025-12-03"]),
        # Names of two months in Czech and in Croatian, or in Polish and in Croatian.
        (("28. lipnja 2025", "3. srpnja 2025"), ["2025-06-28", "2025-07-03"]),
        (("28 lipca 2025", "3 sierpnia 2025"), ["2025-07-28", "2025-08-03"]),
        (("28 listopada 2025", "3. avgust 2026"), ["2025-11-28", "2026-08-03"]),
        (("令和7年12月28日", "令和8年1月3日"), ["2025-12-28", "2026-01-03"]),
        (("R7.12.28", "R08/01/03"), ["2025-12-28", "2026-01-03"]),
        (("平成31年4月30日", "令和元年5月1日"), ["2019-04-30", "2019-05-01"]),
        (("昭和64年1月7日", "H1.1.8"), ["1989-01-07", "1989-01-08"]),
    ],
)
def test_months_of_more_languages(
    tmp_path: Path, dates: tuple[str, str], expected: list[str]
) -> None:
    path = put(tmp_path / "giro.csv", f"{HEAD}\n{dates[0]},A,-1.50\n{dates[1]},B,-2.50\n")

    assert [row["date"] for row in read_stream("csv", path, "transactions")] == expected


BALANCES = "2026-01-13,A,{},87.50\n2026-01-14,B,{},80.00\n2026-01-15,C,{},100.00\n"


def test_balances_show_the_signs_of_amounts_without_any(tmp_path: Path) -> None:
    run(put(tmp_path / "giro.csv", f"{HEAD},Balance\n{BALANCES.format('12.50', '7.50', '20.00')}"))

    assert [str(amount) for _, amount in bookings()] == ["-7.5", "20.0"]
    assert receipts() == {("bad_amount", "line 2")}  # nothing shows the balance before


def test_amounts_that_contradict_their_balances_are_asked_about(tmp_path: Path) -> None:
    text = f"{HEAD},Balance\n{BALANCES.format('12.50', '7.50', '-20.00')}"
    path = put(tmp_path / "giro.csv", text)

    with pytest.raises(CommandError):
        run(path)
    run(path, signs="inverted")

    assert [str(amount) for _, amount in bookings()] == ["-12.5", "-7.5", "20.0"]


def test_fee_beside_an_amount_has_a_receipt(tmp_path: Path) -> None:
    run(put(tmp_path / "giro.csv", f"{HEAD},Fee\n2026-01-13,A,-1.50,0.50\n2026-01-14,B,-2.50,0\n"))

    assert [str(amount) for _, amount in bookings()] == ["-1.5", "-2.5"]
    assert receipts() == {("fee_aside", "line 2")}


def test_polish_text_is_read_in_its_charset(tmp_path: Path) -> None:
    text = "Data operacji;Opis operacji;Kwota\n2026-01-13;Żabka Łódź płatność kartą;-12,50\n"
    run(put(tmp_path / "konto.csv", text.encode("cp1250")))

    (row,) = records("transactions")
    assert row["counterparty"] == "Żabka Łódź płatność kartą"


GIRO = "Buchungstag;Empfänger;Betrag\n13.01.2026;Netflix;-17,99\n"


@pytest.mark.parametrize(
    "rows",
    [
        "Giro;2026-01-13;Netflix;-17.99\nVisa;2026-01-13;Netflix;-17.99\n",
        "Giro;2026-01-13;Netflix;-17.99\nGiro;2026-01-14;B;-1.99\n"
        "Visa;2026-01-13;Netflix;-17.99\nVisa;2026-01-15;C;-7.99\n",
        "Visa;2026-01-13;Netflix;-17.99\n;2026-01-13;Netflix;-17.99\n",
    ],
)
def test_column_with_names_of_accounts_divides_them(tmp_path: Path, rows: str) -> None:
    run(put(tmp_path / "giro.csv", f"Account;Date;Payee;Amount\n{rows}"))

    assert len(bookings()) == rows.count("\n")
    assert {row["name"].lower() for row in records("accounts")} == {"giro", "visa"}


def test_own_account_column_with_an_empty_cell_still_divides(tmp_path: Path) -> None:
    numbers = ("DE89370400440532013000", "DE02120300000000202051", "")
    rows = "".join(f"{number};2026-01-13;Netflix;-17.99\n" for number in numbers)
    run(put(tmp_path / "giro.csv", f"IBAN Auftragskonto;Date;Payee;Amount\n{rows}"))

    assert len({row["account_id"] for row in records("transactions")}) == 3


@pytest.mark.parametrize("name", ["export-2.csv", "export copy.csv", "export (1).csv"])
def test_copy_of_a_file_without_a_telling_name_is_the_same_account(
    tmp_path: Path, name: str
) -> None:
    put(tmp_path / "bank/export.csv", GIRO)
    put(tmp_path / "bank" / name, GIRO + "14.01.2026;Shop;-1,00\n")

    run(tmp_path / "bank")

    assert len(bookings()) == 2
    assert len(records("accounts")) == 1


def test_numbered_accounts_are_two(tmp_path: Path) -> None:
    put(tmp_path / "bank/konto 1.csv", GIRO)
    put(tmp_path / "bank/konto 2.csv", GIRO)

    run(tmp_path / "bank")

    assert {row["name"] for row in records("accounts")} == {"konto 1", "konto 2"}
    assert len(bookings()) == 2


FILES = {
    "giro.csv": GIRO,
    "giro.ofx": document(ofx(booking("-42.00"))),
    "giro.qif": "!Type:Bank\nD13.01.2026\nT-1.234,56\nPA\n^\nD14.01.2026\nT-2,00\nPB\n^\n",
    "giro.sta": ":20:S\n:25:37040044/532013000\n:60F:C260101EUR99,00\n:61:2601130113D12,50N001NONREF\n"
    ":86:Shop\n:62F:C260131EUR86,50\n-\n",
}  # fmt: skip


@pytest.mark.parametrize(("first", "second"), [*combinations(FILES, 2)])
def test_statements_of_two_formats_in_a_file_are_not_mixed(
    tmp_path: Path, first: str, second: str
) -> None:
    for name in (first, second):
        run(put(tmp_path / name, FILES[name]), connection=name)
    alone = Counter(bookings())

    run(put(tmp_path / "both" / first, FILES[first] + FILES[second]), connection="Both")

    found = Counter(bookings()) - alone
    assert found
    assert found < alone
    assert {code for code, _ in receipts()} & {"malformed", "not_a_booking"}


@pytest.mark.parametrize("name", ["DKB new", "ING DE", "KBC"])
def test_statements_of_two_accounts_in_a_file_are_not_one(tmp_path: Path, name: str) -> None:
    layout = LAYOUTS[name]
    content = layout.content.replace(
        b"DE89370400440532013000", b"DE75512108001245126199"
    ).replace(b"DE89 3704 0044 0532 0130 00", b"DE75 5121 0800 1245 1261 99").replace(
        b"BE68539007547034", b"BE71096123456769")  # fmt: skip

    run(put(tmp_path / layout.file, layout.content + content))

    first, *others = Counter(row["account_id"] for row in records("transactions")).values()
    assert first == len(layout.bookings)
    assert others or "malformed" in {code for code, _ in receipts()}
