"""Bank statements as tables: each booking is in its account, with every text that the bank wrote."""

import os
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.core.management.base import CommandError

from importers.core.importer import ChoiceNeeded
from importers.models import ImportReceipt
from importers.runs import runner
from tests.importers.bank import account_names, bookings, put, run_confirmed
from tests.importers.imports import latest, one, receipts, records, run
from tests.importers.torture_kit import read_directly

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.django_db

OWN = "DE89370400440532013000"
OTHER = "DE02120300000000202051"
SAVINGS = (
    "Buchungstag;Name;Verwendungszweck;IBAN;Betrag;Währung\n"
    f"13.01.2026;Eva Lang;Sparen;{OTHER};100,00;EUR\n"
    f"14.01.2026;Eva Lang;Ausgabe;{OTHER};-50,00;EUR\n"
)
GERMAN = (
    "Buchungstag;Empfänger;Verwendungszweck;Betrag (EUR)\n"
    "13.01.2026;Shop;Kauf;-1.250,00\n14.01.2026;Acme;Lohn;2.000,5\n"
)
HEAD = "Date,Payee,Amount"
GIRO = "Buchungstag;Empfänger;Betrag\n13.01.2026;Netflix;-17,99\n"


def test_unknown_columns_are_asked_for_once(tmp_path: Path) -> None:
    path = put(
        tmp_path / "statement.csv",
        "Quando,Quanto,Chi\n2026-01-05,-10.00,Bar\n2026-01-06,20.00,Zia\n",
    )

    with pytest.raises(CommandError, match="Not everything could be imported"):
        run(path)
    run(path, column=["date=Quando", "amount=Quanto", "counterparty=Chi"])
    assert one("transactions", counterparty="Bar")["amount"] == -10

    put(path, path.read_text() + "2026-01-07,-5.00,Nonna\n")
    run(path)
    assert latest().created == 1
    assert one("transactions", counterparty="Nonna")["date"] == "2026-01-07"


def test_column_valuta_with_days_is_no_currency(tmp_path: Path) -> None:
    run_confirmed(put(
        tmp_path / "konto.csv",
        "Datum;Buchungstext;Betrag CHF;Valuta\n26.01.2026;Miete;-100,00;28.01.2026\n",
    ))  # fmt: skip

    row = one("transactions")
    assert (row["currency"], row["details"]) == ("CHF", "Valuta: 28.01.2026")


def test_chinese_marks_say_whether_money_leaves(tmp_path: Path) -> None:
    run_confirmed(put(
        tmp_path / "konto.csv", "交易日期,借贷,交易金额\n2026-01-26,贷 Cr,1.23\n2026-01-27,借 Dr,3.21\n"
    ))  # fmt: skip

    assert [amount for _, amount, _ in bookings()] == [Decimal("1.23"), Decimal("-3.21")]


def test_time_of_a_booking_is_kept(tmp_path: Path) -> None:
    run_confirmed(put(
        tmp_path / "card.csv", "Date,Payee,Amount\n"
        "2026-01-26 13:11:50,Bar,-4.50\n2026-01-27,Inn,-9\n2026-01-28 00:00:00,Zoo,-5\n"
    ))  # fmt: skip

    assert one("transactions", counterparty="Bar")["details"] == "Date: 2026-01-26 13:11:50"
    assert one("transactions", counterparty="Inn")["details"] is None
    assert one("transactions", counterparty="Zoo")["details"] is None


def test_likely_columns_of_an_unknown_header_are_only_suggested(tmp_path: Path) -> None:
    path = put(tmp_path / "giro.csv", SAVINGS)

    with pytest.raises(CommandError, match="Not everything could be imported"):
        run(path)
    assert records("transactions") == records("accounts") == []

    run_confirmed(path, column=("counterparty_account=IBAN",))
    assert one("transactions", memo="Sparen")["counterparty"] == "Eva Lang"


def test_table_without_a_header_has_columns_by_number(tmp_path: Path) -> None:
    path = put(tmp_path / "checking.csv", "01/13/2026,-12.50,*,,SHOP\n01/14/2026,-1.50,*,,SHOP\n")

    with pytest.raises(CommandError, match="Not everything could be imported"):
        run(path)
    run(path, column=["date=1", "amount=2", "counterparty=5"])
    assert [str(amount) for _, amount, _ in bookings()] == ["-12.5", "-1.5"]
    assert one("transactions", amount=-12.5)["details"] == "3: *"

    run(put(path, path.read_text() + "01/15/2026,-2.50,*,,CAFE\n"))
    assert one("transactions", counterparty="CAFE")["amount"] == -2.5


def test_no_booking_of_zero_is_made_where_its_amount_may_stand_beside(tmp_path: Path) -> None:
    lines = ("11/01/2014,0,Deposit,0,500.00,500.00", "11/17/2014,101,Check,100.00,0,400.00")
    path = put(tmp_path / "checking.csv", "\n".join(lines) + "\n")

    run(path, column=["date=1", "amount=5", "counterparty=3"], signs="as-written")
    assert [amount for _, amount, _ in bookings()] == [500]
    assert ("bad_amount", "line 2") in receipts()

    run(path, column=["date=1", "debit=4", "credit=5", "counterparty=3"])
    assert {amount for _, amount, _ in bookings()} == {500, -100}


@pytest.mark.parametrize(
    ("name", "above"),
    [("umsaetze.csv", f"Konto;{OWN}\n\n"), (f"umsaetze_{OWN}.csv", "")],
    ids=["above the header", "in the file name"],
)
def test_only_other_side_of_a_savings_account_is_not_its_owner(
    tmp_path: Path, name: str, above: str
) -> None:
    run_confirmed(put(tmp_path / name, above + SAVINGS))

    (account,) = records("accounts")
    assert account["name"] == "Account …3000"
    assert {row["account_id"] for row in records("transactions")} == {account["id"]}
    assert {row["counterparty_account"] for row in records("transactions")} == {OTHER}


@pytest.mark.parametrize(
    ("answer", "account", "other"),
    [("account=IBAN", "Account …2051", None), ("counterparty_account=IBAN", "giro", OTHER)],
)
def test_whose_a_constant_number_is_the_owner_says(
    tmp_path: Path, answer: str, account: str, other: str | None
) -> None:
    path = put(tmp_path / "giro.csv", SAVINGS)

    with pytest.raises(CommandError, match="Not everything could be imported"):
        run(path, column=["date=Buchungstag"])
    assert records("transactions") == []
    run(path, column=["date=Buchungstag", answer])

    assert [row["name"] for row in records("accounts")] == [account]
    assert {row["counterparty_account"] for row in records("transactions")} == {other}


def test_no_column_is_dropped(tmp_path: Path) -> None:
    run_confirmed(put(tmp_path / "giro.csv", (
        "Date;Payee;Amount;Zweckbestimmung;Mandat;Saldo\n"
        "13.01.2026;Shop;-1,50;Wasserhahn repariert;M-17;98,50\n14.01.2026;Acme;2,50;;;101,00\n"
    )))  # fmt: skip

    details = {row["counterparty"]: row["details"] for row in records("transactions")}
    assert details == {
        "Shop": "Zweckbestimmung: Wasserhahn repariert\nMandat: M-17\nSaldo: 98,50",
        "Acme": "Saldo: 101,00",
    }
    assert receipts() == {("columns_kept", "header")}
    assert ImportReceipt.unscoped.get().detail == "Zweckbestimmung, Mandat"


@pytest.mark.parametrize("amounts", [("1.234", "5.678"), ("1,50", "2.50")])
def test_unclear_decimal_separator_is_asked_for(tmp_path: Path, amounts: tuple[str, str]) -> None:
    rows = f"13.01.2026;A;-{amounts[0]}\n14.01.2026;B;-{amounts[1]}\n"
    path = put(tmp_path / "giro.csv", f"Datum;Name;Betrag\n{rows}")

    with pytest.raises(CommandError, match="Not everything"):
        run(path)
    assert records("transactions") == []

    run(path, decimal="comma")
    assert bookings()[0][1] == Decimal({"1.234": "-1234", "1,50": "-1.5"}[amounts[0]])


@pytest.mark.parametrize(
    ("date", "order", "expected"),
    [("08.01.13", "reiwa", "2026-01-13"), ("08.01.13", "dmy", "2013-01-08")],
)
def test_two_digit_years_of_a_japanese_table_are_asked_about(
    tmp_path: Path, date: str, order: str, expected: str
) -> None:
    path = put(tmp_path / "a.csv", f"日付,摘要,金額\n{date},A,-1500\n")

    with pytest.raises(CommandError):
        run_confirmed(path)
    run(path, date_order=order, column=["date=日付", "amount=金額"])
    assert [on for on, _, _ in bookings()] == [expected]


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        (("26-01-05", "26-01-28"), ("2026-01-05", "2026-01-28")),
        (("05/01/26", "28/01/26"), ("2026-01-05", "2026-01-28")),
        (("5. Januar 2026", "28. Januar 2026"), ("2026-01-05", "2026-01-28")),
        (("05-JAN-26", "28-JAN-26"), ("2026-01-05", "2026-01-28")),
        (("20260105", "20260128"), ("2026-01-05", "2026-01-28")),
        (("28012026", "03022026"), ("2026-01-28", "2026-02-03")),
        (("2026年1月5日", "2026年1月28日"), ("2026-01-05", "2026-01-28")),
        (("2026-01-05T10:00:00Z", "2026-01-28T10:00:00Z"), ("2026-01-05", "2026-01-28")),
        (("28. marraskuuta 2025", "4. maaliskuuta 2026"), ("2025-11-28", "2026-03-04")),
        (("28 paź 2025", "9 lis 2025"), ("2025-10-28", "2025-11-09")),
        (("28. června 2025", "3. července 2025"), ("2025-06-28", "2025-07-03")),
        # Names of two months in Czech and in Croatian, or in Polish and in Croatian.
        (("28. lipnja 2025", "3. srpnja 2025"), ("2025-06-28", "2025-07-03")),
        (("28 lipca 2025", "3 sierpnia 2025"), ("2025-07-28", "2025-08-03")),
        (("令和7年12月28日", "令和8年1月3日"), ("2025-12-28", "2026-01-03")),
        (("平成31年4月30日", "令和元年5月1日"), ("2019-04-30", "2019-05-01")),
    ],
)
def test_written_dates(tmp_path: Path, dates: tuple[str, str], expected: tuple[str, str]) -> None:
    rows = "".join(f'"{date}",Shop,-1.50\n' for date in dates)

    result = read_directly("csv", put(tmp_path / "giro.csv", f"{HEAD}\n{rows}"))

    assert result.issues == []
    assert tuple(row["date"] for row in result.records if "amount" in row) == expected


SIGNED = [
    "Datum;Empfänger;Betrag EUR;Soll/Haben\n13.01.2026;Shop;12,50;S\n14.01.2026;Acme;2000,00;H\n",
    "Datum;Empfänger;Soll (EUR);Haben (EUR)\n13.01.2026;Shop;12,50;\n14.01.2026;Acme;;2.000,00\n",
    "Date;Libellé;Débit (€);Crédit (€)\n13/01/2026;Shop;-12,50;\n14/01/2026;Acme;;2 000,00\n",
    "Fecha;Concepto;Cargo (€);Abono (€)\n13/01/2026;Shop;12,50;0,00\n14/01/2026;Acme;0,00;2.000,00\n",
    "Date\tPayee\tAmount (€)\n2026-01-13\tShop\t12.50-\n2026-01-14\tAcme\t2'000.00\n",
    "Date,Payee,Amount (EUR)\n2026-01-13,Shop,(12.50)\n2026-01-14,Acme,\"2,000.00\"\n",
    "Date;Payee;Amount\n2026-01-13;Shop;\u221212,50 €\n2026-01-14;Acme;2\u202f000,00 €\n",
    "sep=;\nDate;Payee;Amount;Ccy\n13 Jan 2026;Shop;12.50 DR;EUR\n14 Jan 2026;Acme;2,000.00 CR;EUR\n",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "encoding"), [(SIGNED[0], "utf-16"), *((each, "utf-8") for each in SIGNED)]
)
def test_sign_is_read_from_where_the_bank_writes_it(
    tmp_path: Path, text: str, encoding: str
) -> None:
    run_confirmed(put(tmp_path / "giro.csv", text, encoding))

    assert bookings() == [
        ("2026-01-13", Decimal("-12.5"), "EUR"),
        ("2026-01-14", Decimal("2000.0"), "EUR"),
    ]
    assert {code for code, _ in receipts()} <= {"made_from_memory"}


@pytest.mark.parametrize(
    "rows",
    [
        "01/13/2026,COFFEE,4.50\n01/14/2026,SHOP,95.50\n",
        "01/13/2026,COFFEE,4.50\n01/14/2026,PAYMENT THANK YOU,-100.00\n01/15/2026,SHOP,95.50\n",
    ],
    ids=["no minus sign", "fewer minus signs"],
)
def test_amounts_without_a_minus_sign_are_asked_about(tmp_path: Path, rows: str) -> None:
    path = put(tmp_path / "mine.csv", f"Date,Description,Amount\n{rows}")

    with pytest.raises(CommandError):
        run(path)
    run(path, signs="inverted")
    assert one("transactions", counterparty="COFFEE")["amount"] == -4.5

    # The answer is remembered for this layout only.
    run(put(path, path.read_text() + "01/16/2026,TEA,1.00\n"))
    assert one("transactions", counterparty="TEA")["amount"] == -1


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
        # Equal rows of one file are bookings of their own.
        ("2026-01-13,A,-1.50\n2026-01-13,A,-1.50\n", ["-1.5", "-1.5"]),
    ],
)  # fmt: skip
def test_rows_are_those_of_the_bank(tmp_path: Path, rows: str, expected: list[str]) -> None:
    run(put(tmp_path / "giro.csv", f"{HEAD}\n{rows}"))

    assert [str(amount) for _, amount, _ in bookings()] == expected
    run(tmp_path / "giro.csv")
    assert latest().created == 0


def test_rows_that_contradict_the_file_are_left_out(tmp_path: Path) -> None:
    run(put(tmp_path / "giro.csv", (
        f"{HEAD},Currency\n2026-01-13,A,-4.50,EUR\n2026-01-13,A,-5.50,EUR\n"
        '2026-01-14,B,"-1.250,00",EUR\n2026-01-15,C,-12,50,EUR\n2026-01-16,D,-1.234,EUR\n'
        "2026-01-17,E,-1.234,KWD\n2026-01-18,F,99999999999999.99,EUR\nTotal,,-10.00,EUR\n"
    )))  # fmt: skip

    assert bookings() == [
        ("2026-01-13", Decimal("-5.5"), "EUR"), ("2026-01-13", Decimal("-4.5"), "EUR"),
        ("2026-01-17", Decimal("-1.234"), "KWD"),
    ]  # fmt: skip
    assert receipts() == {
        ("bad_amount", "line 4"), ("malformed", "line 5"), ("bad_amount", "line 6"),
        ("bad_amount", "line 8"), ("not_a_booking", "line 9"),
    }  # fmt: skip


def test_second_table_in_a_file_has_receipts(tmp_path: Path) -> None:
    run(put(tmp_path / "giro.csv", (
        f"{HEAD}\n2026-01-13,A,-1.50\n{HEAD}\n2026-01-14,B,-2.50\n"
        "Details,Date,Payee,Debit,Credit\nx,2026-01-15,C,12.50,\n"
    )))  # fmt: skip

    assert [str(amount) for _, amount, _ in bookings()] == ["-1.5", "-2.5"]
    assert receipts() == {("malformed", "line 5"), ("malformed", "line 6")}


def test_two_accounts_in_one_file_are_not_one(tmp_path: Path) -> None:
    run(put(tmp_path / "giro.csv", f"IBAN;{OWN}\n\n{GIRO}IBAN;{OTHER}\n\n{GIRO}"))

    assert set(account_names()) == {"Account …3000"}
    assert len(bookings()) == 1
    assert "malformed" in {code for code, _ in receipts()}


def test_fee_beside_an_amount_has_a_receipt(tmp_path: Path) -> None:
    text = f"{HEAD},Fee\n2026-01-13,A,-1.50,0.50\n2026-01-14,B,-2.50,0\n"
    run_confirmed(put(tmp_path / "giro.csv", text))

    assert [str(amount) for _, amount, _ in bookings()] == ["-2.5", "-1.5"][::-1]
    assert receipts() == {("fee_aside", "line 2")}


@pytest.mark.parametrize(
    "rows",
    [
        "Giro;2026-01-13;Netflix;-17.99\nVisa;2026-01-13;Netflix;-17.99\n",
        "Visa;2026-01-13;Netflix;-17.99\n;2026-01-13;Netflix;-17.99\n",
    ],
)
def test_column_with_names_of_accounts_divides_them(tmp_path: Path, rows: str) -> None:
    run(put(tmp_path / "giro.csv", f"Account;Date;Payee;Amount\n{rows}"))

    assert len(bookings()) == 2
    assert {row["name"].lower() for row in records("accounts")} == {"giro", "visa"}


@pytest.mark.parametrize("name", ["export-2.csv", "export copy.csv", "export (1).csv"])
def test_copy_of_a_file_without_a_telling_name_is_the_same_account(
    tmp_path: Path, name: str
) -> None:
    put(tmp_path / "bank/export.csv", GIRO)
    put(tmp_path / "bank" / name, GIRO + "14.01.2026;Shop;-1,00\n")

    run(tmp_path / "bank")

    assert (len(bookings()), len(records("accounts"))) == (2, 1)


def test_generic_file_name_asks_unless_rows_overlap(tmp_path: Path) -> None:
    header = "Buchungstag;Empfänger;Betrag\n"
    run(put(tmp_path / "a/export.csv", header + "13.01.2026;A;-1,00\n14.01.2026;B;-2,00\n"))
    run(put(tmp_path / "b/export.csv", header + "14.01.2026;B;-2,00\n15.01.2026;C;-3,00\n"))
    assert len(bookings()) == 3

    other = put(tmp_path / "c/export.csv", header + "13.01.2026;Z;-9,00\n")
    with pytest.raises(CommandError):
        run(other)
    run(other, account="Savings")
    assert set(account_names()) == {"Account", "Savings"}


@pytest.mark.parametrize(
    "text",
    [
        "Date,Weight\n2026-01-13,81.5\n",
        "date,value,unit\n2026-01-13,81.5,kg\n",
        "Title,Date\nSome Series: Season 1,1/13/26\n",
        "Name,Given Name,Notes,E-mail 1 - Value\nEva Lang,Eva,,eva@example.org\n",
    ],
)
def test_other_tables_are_said_to_be_unknown_with_their_columns(tmp_path: Path, text: str) -> None:
    path = put(tmp_path / "table.csv", text)
    with pytest.raises(CommandError):
        run(path)

    put(tmp_path / "both/table.csv", text)
    put(tmp_path / "both/german.csv", GERMAN)
    output = run(tmp_path / "both")
    assert text.splitlines()[0].split(",")[0] in output
    assert len(bookings()) == 2
    assert receipts() == {("unknown_columns", "table.csv")}


def test_table_with_two_sides_is_refused_with_the_reason(tmp_path: Path) -> None:
    header = "ID,Status,Direction,Source amount (after fees),Target amount (after fees)"
    run(put(tmp_path / "transaction-history.csv", f"{header}\nT-1,COMPLETED,OUT,98.75,105.00\n"))

    assert records("transactions") == []
    assert [row.code for row in ImportReceipt.unscoped.all()] == ["not_supported"]
    assert "Download the statement of each balance" in ImportReceipt.unscoped.get().detail


def test_watched_folder_keeps_a_doubtful_file_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "WAITING_SECONDS", 0)
    folder = tmp_path / "watched"
    text = f"{HEAD}\n03/04/2026,A,-1.50\n05/06/2026,B,-2.50\n"
    path = put(folder / "giro.csv", text)
    os.utime(path, (time.time() - 100,) * 2)
    worker = runner.ImportWorker(tmp_path / "imports", watch=folder, seconds=0)

    list(worker.job())
    assert records("transactions") == records("accounts") == []

    run(put(tmp_path / "other/giro.csv", text.replace(",A,", ",C,")), date_order="mdy")
    list(worker.job())
    assert {record["date"] for record in records("transactions")} == {"2026-03-04", "2026-05-06"}
    assert len(records("transactions")) == 3


def test_evidence_of_unclear_dates_has_different_readings(tmp_path: Path) -> None:
    path = put(tmp_path / "giro.csv", f"{HEAD}\n01/01/2000,A,-1.50\n03/04/2015,B,-2.50\n")

    with pytest.raises(ChoiceNeeded) as asked:
        read_directly("csv", path)

    assert asked.value.evidence == ["03/04/2015 is 3 April 2015 or 4 March 2015"]


def test_receipt_of_a_row_without_an_amount_says_so(tmp_path: Path) -> None:
    run(put(tmp_path / "giro.csv", f"{HEAD}\n2026-01-13,A,-1.50\n2026-01-14,B,\n"))

    assert [(row.code, row.detail) for row in ImportReceipt.unscoped.all()] == [
        ("bad_amount", "no amount")
    ]


def test_only_column_of_money_keeps_its_signs(tmp_path: Path) -> None:
    path = put(tmp_path / "giro.csv", "Date,Payee,Inflow\n2026-01-13,Shop,-5.00\n2026-01-14,Job,9.00\n"
               "2026-01-15,Bar,-6.50\n")  # fmt: skip
    run_confirmed(path)

    assert [amount for _, amount, _ in bookings()] == [Decimal(-5), Decimal(9), Decimal("-6.5")]


@pytest.mark.parametrize(
    ("rows", "amounts"),
    [
        ("2026-01-13,Shop,-5.00,D\n2026-01-14,Job,9.00,C\n", [-5, 9]),
        ("2026-01-13,Shop,5.00,D\n2026-01-14,Job,9.00,C\n", [-5, 9]),
        ("2026-01-13,Shop,5.00,D\n2026-01-14,Job,-9.00,C\n", [-5]),
        ("2026-01-13,Shop,5.00,D\n2026-01-14,Bar,-9.00,D\n", [-5]),
    ],
)
def test_sign_and_mark_that_contradict_each_other_have_a_receipt(
    tmp_path: Path, rows: str, amounts: list[int]
) -> None:
    path = put(tmp_path / "giro.csv", f"Date,Payee,Amount,D/C\n{rows}")
    run_confirmed(path, column=("direction=D/C",))

    assert [amount for _, amount, _ in bookings()] == amounts
    refused = [row.detail for row in ImportReceipt.unscoped.filter(code="bad_amount")]
    assert len(refused) == 2 - len(amounts)
    assert all(detail.startswith("-9.00 ") for detail in refused)


@pytest.mark.parametrize(
    "names",
    [
        ("history_20260113204133.csv", "history_20260214101500.csv"),
        ("dba33fceecd62c3c727893361e0ba4d3.csv", "9fe1a63e30c62aa4c7278933612217ab.csv"),
        ("6f1c2a34-0d0e-4c1b-9b6e-1f2a3b4c5d6e.csv", "0a1c2a34-0d0e-4c1b-9b6e-1f2a3b4c5d6f.csv"),
    ],
)
def test_times_and_random_names_of_downloads_are_no_accounts(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    rows = "2026-01-13,Shop,-5.00\n2026-01-14,Bar,-6.50\n"
    for name in names:
        run(put(tmp_path / name, f"{HEAD}\n{rows}"))

    assert len(records("accounts")) == 1
    assert len(bookings()) == 2


def test_own_account_number_is_not_suggested_as_the_other_side(tmp_path: Path) -> None:
    path = put(tmp_path / "giro.csv", SAVINGS)

    with pytest.raises(CommandError, match="Not everything could be imported"):
        run_confirmed(path)
    assert records("transactions") == []

    run_confirmed(path, column=("account=IBAN",))
    assert account_names() == {"Account …2051": "EUR"}


def test_venmo_names_the_other_side_of_payments_and_requests(tmp_path: Path) -> None:
    header = "ID,Datetime,Type,Status,Note,From,To,Amount (total)"
    rows = (
        "1,2026-01-01T13:00:00,Charge,Complete,rent,Me,Ada,+ $73.01\n"
        "2,2026-01-02T17:00:00,Payment,Complete,lunch,Bob,Me,+ $50.03\n"
        "3,2026-01-03T20:00:00,Payment,Complete,tea,Me,Cyd,- $12.01\n"
        "4,2026-01-04T04:00:00,Charge,Complete,bill,Dan,Me,- $35.02\n"
    )
    run(put(tmp_path / "venmo.csv", f"{header}\n{rows}"))

    found = {row["memo"]: row for row in records("transactions")}
    assert {memo: row["counterparty"] for memo, row in found.items()} == {
        "rent": "Ada", "lunch": "Bob", "tea": "Cyd", "bill": "Dan",
    }  # fmt: skip
    assert "To: Me" in found["lunch"]["details"]


def test_balance_above_a_table_has_a_receipt(tmp_path: Path) -> None:
    path = put(tmp_path / "giro.csv", f"Konto,DE02 1203 0000 0000 2020 51\nStand,13.01.2026\n"
               f'Saldo,"1.234,56 EUR"\n\n{HEAD}\n2026-01-13,Bar,-5.00\n')  # fmt: skip
    run(path)

    assert [row.detail for row in ImportReceipt.unscoped.all()] == ["Saldo 1.234,56 EUR"]


def test_receipt_of_a_row_without_a_date_has_its_text(tmp_path: Path) -> None:
    path = put(tmp_path / "giro.csv", f"{HEAD}\n2026-01-13,PURCHASE,-5.00\n,CAFE OSLO,\n"
               "2026-01-14,Bar,-6.50\n")  # fmt: skip
    run(path)

    assert [row.detail for row in ImportReceipt.unscoped.filter(code="not_a_booking")] == [
        "CAFE OSLO"
    ]


def test_amounts_with_signs_are_suggested_before_balances(tmp_path: Path) -> None:
    run_confirmed(
        put(tmp_path / "giro.csv", "13.01.2026,Shop,130.44,23.77\n14.01.2026,Bar,124.21,-6.23\n")
    )

    assert [amount for _, amount, _ in bookings()] == [Decimal("23.77"), Decimal("-6.23")]
