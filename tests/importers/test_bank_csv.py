"""CSV statements: each file is read by its own rows, and doubts are asked about."""

import os
import time
from decimal import Decimal
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from importers.runs import background
from tests.importers.imports import one, receipts, records, run

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def put(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


def bookings() -> list[tuple[str, Decimal, str]]:
    """Return (date, amount, currency) of all transactions, in order."""
    return sorted(
        (record["date"], Decimal(str(record["amount"])), record["currency"] or "")
        for record in records("transactions")
    )


def account_names() -> dict[str, str | None]:
    return {record["name"]: record["currency"] for record in records("accounts")}


GERMAN = (
    "Buchungstag;Empfänger;Verwendungszweck;Betrag (EUR)\n"
    "13.01.2026;Shop;Kauf;-1.250,00\n14.01.2026;Acme;Lohn;2.000,5\n"
)
AMERICAN = 'Date,Description,Amount\n01/13/2026,Shop,"-1,234.56"\n01/14/2026,Refund,4.50\n'


@pytest.mark.parametrize("order", [("german", "american"), ("american", "german")])
def test_decimal_separator_and_dates_are_found_for_each_file(
    tmp_path: Path, order: tuple[str, str]
) -> None:
    for name in order:
        run(put(tmp_path / f"{name}.csv", {"german": GERMAN, "american": AMERICAN}[name]))

    assert [(date, amount) for date, amount, _ in bookings()] == [
        ("2026-01-13", Decimal("-1250.0")),
        ("2026-01-13", Decimal("-1234.56")),
        ("2026-01-14", Decimal("4.5")),
        ("2026-01-14", Decimal("2000.5")),
    ]
    assert account_names() == {"german": "EUR", "american": None}


def test_folder_can_have_several_layouts(tmp_path: Path) -> None:
    put(tmp_path / "bank/german.csv", GERMAN)
    put(tmp_path / "bank/american.csv", AMERICAN)

    run(tmp_path / "bank")

    assert len(bookings()) == 4
    assert receipts() == set()


@pytest.mark.parametrize("amounts", [("1.234", "5.678"), ("1,50", "2.50")])
def test_unclear_decimal_separator_is_asked_for_each_file(
    tmp_path: Path, amounts: tuple[str, str]
) -> None:
    first, second = amounts
    path = put(
        tmp_path / "giro.csv", f"Datum;Name;Betrag\n13.01.2026;A;-{first}\n14.01.2026;B;-{second}\n"
    )

    with pytest.raises(CommandError, match="Not everything"):
        run(path)
    assert records("transactions") == []

    run(path, decimal="comma")
    assert bookings()[0][1] == Decimal({"1.234": "-1234", "1,50": "-1.5"}[first])
    other = put(tmp_path / "other.csv", f"Date,Payee,Amount\n2026-01-13,A,-{second}\n")
    if second == "5.678":
        with pytest.raises(CommandError, match="Not everything"):
            run(other)


def test_equal_rows_of_two_accounts_are_two_bookings(tmp_path: Path) -> None:
    row = "Buchungstag;Empfänger;Betrag\n13.01.2026;Netflix;-17,99\n"
    run(put(tmp_path / "giro.csv", row))
    run(put(tmp_path / "visa.csv", row))

    assert len(bookings()) == 2
    assert len({record["account_id"] for record in records("transactions")}) == 2


def test_account_and_currency_are_read_above_the_header(tmp_path: Path) -> None:
    run(put(tmp_path / "export.csv", (
        "Kontonummer:;DE89 3704 0044 0532 0130 00 / Girokonto\n"
        "Kontostand vom 15.01.2026:;1.234,56 EUR\n\n" + GERMAN.replace(" (EUR)", "")
    )))  # fmt: skip
    run(put(tmp_path / "other/export.csv", (
        "IBAN;DE02 1203 0000 0000 2020 51\n\n" + GERMAN.replace(" (EUR)", "")
    )))  # fmt: skip

    assert account_names() == {"Account …3000": "EUR", "Account …2051": None}
    assert len(bookings()) == 4


def test_own_account_column_names_the_account(tmp_path: Path) -> None:
    run(put(tmp_path / "umsatz.csv", (
        "Auftragskonto;Buchungstag;Beguenstigter/Zahlungspflichtiger;Kontonummer/IBAN;Betrag;Waehrung;Info\n"
        "DE89370400440532013000;13.01.26;Shop;DE02120300000000202051;-1,00;EUR;Umsatz gebucht\n"
        "DE02120300000000202051;13.01.26;Shop;DE89370400440532013000;-1,00;EUR;Umsatz gebucht\n"
        "DE02120300000000202051;14.01.26;Shop;;-2,00;EUR;Umsatz vorgemerkt\n"
    ), "cp1252"))  # fmt: skip

    assert len(account_names()) == 2
    assert bookings() == [("2026-01-13", Decimal("-1.0"), "EUR")] * 2
    assert receipts() == {("not_booked", "line 4")}


def test_generic_file_name_asks_unless_rows_overlap(tmp_path: Path) -> None:
    header = "Buchungstag;Empfänger;Betrag\n"
    run(put(tmp_path / "a/export.csv", header + "13.01.2026;A;-1,00\n14.01.2026;B;-2,00\n"))
    run(put(tmp_path / "b/export.csv", header + "14.01.2026;B;-2,00\n15.01.2026;C;-3,00\n"))
    assert len(bookings()) == 3

    other = put(tmp_path / "c/export.csv", header + "13.01.2026;Z;-9,00\n")
    with pytest.raises(CommandError):
        run(other)
    assert len(bookings()) == 3
    run(other, account="Savings")
    assert set(account_names()) == {"Account", "Savings"}


def test_equal_rows_of_one_file_are_two_bookings(tmp_path: Path) -> None:
    path = put(
        tmp_path / "giro.csv", "Buchungstag;Empfänger;Betrag\n" + "13.01.2026;Kiosk;-2,50\n" * 2
    )

    run(path)
    run(path)

    assert [amount for _, amount, _ in bookings()] == [Decimal("-2.5")] * 2


INDICATORS = [
    ('"Datum","Naam / Omschrijving","Rekening","Tegenrekening","Code","Af Bij","Bedrag (EUR)","MutatieSoort","Mededelingen"\n'
     '"20260113","Shop","NL91ABNA0417164300","","BA","Af","12,50","Betaalautomaat","x"\n'
     '"20260114","Acme","NL91ABNA0417164300","","OV","Bij","2000,00","Overschrijving","y"\n'),
    ('"Date","Name / Description","Account","Counterparty","Code","Debit/credit","Amount (EUR)","Transaction type","Notifications"\n'
     '"20260113","Shop","NL91ABNA0417164300","","BA","Debit","12,50","x","x"\n'
     '"20260114","Acme","NL91ABNA0417164300","","OV","Credit","2000,00","y","y"\n'),
    "Datum;Empfänger;Betrag EUR;Soll/Haben\n13.01.2026;Shop;12,50;S\n14.01.2026;Acme;2000,00;H\n",
    "Datum;Empfänger;Soll (EUR);Haben (EUR)\n13.01.2026;Shop;12,50;\n14.01.2026;Acme;;2.000,00\n",
    "Date;Libellé;Débit euros;Crédit euros\n13/01/2026;Shop;-12,50;\n14/01/2026;Acme;;2 000,00\n".replace(" euros", " (€)"),
    "Fecha;Concepto;Cargo (€);Abono (€)\n13/01/2026;Shop;12,50;0,00\n14/01/2026;Acme;0,00;2.000,00\n",
    "Data;Descrizione;Uscite (EUR);Entrate (EUR)\n13/01/2026;Shop;12,50;\n14/01/2026;Acme;;2.000,00\n",
    "Date\tPayee\tAmount (€)\n2026-01-13\tShop\t12.50-\n2026-01-14\tAcme\t2'000.00\n",
    "Date,Payee,Amount (EUR)\n2026-01-13,Shop,(12.50)\n2026-01-14,Acme,\"2,000.00\"\n",
    "Date;Payee;Amount\n2026-01-13;Shop;\u221212,50 €\n2026-01-14;Acme;2\u202f000,00 €\n",
    "sep=;\nDate;Payee;Amount;Ccy\n13 Jan 2026;Shop;12.50 DR;EUR\n14 Jan 2026;Acme;2,000.00 CR;EUR\n",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (INDICATORS[0], "utf-8-sig"),
        (INDICATORS[0], "utf-16"),
        *((each, "utf-8") for each in INDICATORS),
    ],
)
def test_sign_is_read_from_where_the_bank_writes_it(
    tmp_path: Path, text: str, encoding: str
) -> None:
    run(put(tmp_path / "giro.csv", text, encoding))

    assert bookings() == [
        ("2026-01-13", Decimal("-12.5"), "EUR"),
        ("2026-01-14", Decimal("2000.0"), "EUR"),
    ]
    assert receipts() == set()


AMEX = (
    "Date,Description,Card Member,Account #,Amount\n"
    "01/13/2026,COFFEE,EVA LANG,-61003,4.50\n01/14/2026,SHOP,EVA LANG,-61003,95.50\n"
    "01/20/2026,AUTOPAY PAYMENT - THANK YOU,EVA LANG,-61003,-100.00\n"
)


def test_purchases_of_a_card_are_negative(tmp_path: Path) -> None:
    run(put(tmp_path / "activity.csv", AMEX))

    assert sum(amount for _, amount, _ in bookings()) == 0
    assert one("transactions", counterparty="COFFEE")["amount"] == -4.5


def test_amounts_without_any_sign_are_asked_about(tmp_path: Path) -> None:
    text = "Date,Description,Amount\n01/13/2026,COFFEE,4.50\n01/14/2026,SHOP,95.50\n"
    path = put(tmp_path / "mycard.csv", text)

    with pytest.raises(CommandError):
        run(path)
    run(path, signs="inverted")
    assert sum(amount for _, amount, _ in bookings()) == -100
    # The answer is remembered for this layout only.
    run(put(tmp_path / "mycard.csv", text + "01/15/2026,TEA,1.00\n"))
    assert sum(amount for _, amount, _ in bookings()) == -101


def test_reverted_rows_of_revolut_do_not_count(tmp_path: Path) -> None:
    run(put(tmp_path / "account-statement_2026-01-01_2026-01-31_en-gb_a1b2c3.csv", (
        "Type,Product,Started Date,Completed Date,Description,Amount,Fee,Currency,State,Balance\n"
        "CARD_PAYMENT,Current,2026-01-13 08:00:00,2026-01-14 08:00:00,Shop,-10.00,0.00,EUR,COMPLETED,90.00\n"
        "CARD_PAYMENT,Current,2026-01-13 09:00:00,,Hotel,-80.00,0.00,EUR,REVERTED,\n"
        "EXCHANGE,Current,2026-01-15 09:00:00,2026-01-15 09:00:00,Exchange,-20.00,0.50,EUR,COMPLETED,69.50\n"
        "EXCHANGE,Current,2026-01-15 09:00:00,2026-01-15 09:00:00,Exchange,22.00,0.00,USD,COMPLETED,22.00\n"
    )))  # fmt: skip

    assert sum(amount for _, amount, currency in bookings() if currency == "EUR") == Decimal(
        "-30.5"
    )
    assert account_names() == {"Revolut Current EUR": "EUR", "Revolut Current USD": "USD"}
    assert receipts() == {("not_booked", "line 3")}


def test_paypal_counts_net_by_currency(tmp_path: Path) -> None:
    run(put(tmp_path / "Download.CSV", (
        '"Datum","Uhrzeit","Zeitzone","Name","Typ","Status","Währung","Brutto","Gebühr","Netto",'
        '"Transaktionscode","Auswirkung auf Guthaben"\n'
        '"13.01.2026","08:00:00","CET","Shop","Zahlung","Abgeschlossen","EUR","-10,00","0,00","-10,00","1A","Soll"\n'
        '"13.01.2026","08:00:00","CET","","Bankgutschrift","Abgeschlossen","EUR","10,00","0,00","10,00","1B","Haben"\n'
        '"14.01.2026","08:00:00","CET","Eva","Zahlung","Abgeschlossen","USD","100,00","-3,90","96,10","1C","Haben"\n'
        '"15.01.2026","08:00:00","CET","Hotel","Autorisierung","Ausstehend","EUR","-99,00","0,00","-99,00","1D","Memo"\n'
    )))  # fmt: skip

    sums = {c: sum(a for _, a, found in bookings() if found == c) for c in ("EUR", "USD")}
    assert sums == {"EUR": 0, "USD": Decimal("96.1")}
    assert account_names() == {"PayPal EUR": "EUR", "PayPal USD": "USD"}


def test_wise_history_has_a_row_for_each_balance(tmp_path: Path) -> None:
    run(put(tmp_path / "transaction-history.csv", (
        'ID,Status,Direction,"Created on","Finished on","Source fee amount","Source fee currency",'
        '"Target fee amount","Target fee currency","Source name","Source amount (after fees)",'
        '"Source currency","Target name","Target amount (after fees)","Target currency","Exchange rate",Reference,Batch\n'
        "TRANSFER-1,COMPLETED,OUT,2026-01-13 08:00:00,2026-01-13 09:00:00,1.25,EUR,,,Eva,98.75,EUR,Jonas,105.00,USD,1.06,rent,\n"
        "BALANCE-2,COMPLETED,NEUTRAL,2026-01-14 08:00:00,2026-01-14 08:00:00,0.50,EUR,,,Eva,49.50,EUR,Eva,52.00,USD,1.05,,\n"
        "TRANSFER-3,CANCELLED,OUT,2026-01-15 08:00:00,,0.00,EUR,,,Eva,10.00,EUR,Jonas,10.00,EUR,1,,\n"
        "TRANSFER-4,COMPLETED,IN,2026-01-16 08:00:00,2026-01-16 08:00:00,0.00,USD,,,Acme,7.00,USD,Eva,7.00,USD,1,,\n"
    )))  # fmt: skip

    assert bookings() == [
        ("2026-01-13", Decimal("-100.0"), "EUR"),
        ("2026-01-14", Decimal("-50.0"), "EUR"),
        ("2026-01-14", Decimal("52.0"), "USD"),
        ("2026-01-16", Decimal("7.0"), "USD"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Date,Weight\n2026-01-13,81.5\n",
        "date,value,unit\n2026-01-13,81.5,kg\n",
        "Title,Date\nSome Series: Season 1,1/13/26\n",
        "Name,Given Name,Notes,E-mail 1 - Value\nEva Lang,Eva,,eva@example.org\n",
        "01/13/2026,-12.50,*,,SHOP\n01/14/2026,-1.50,*,,SHOP\n",
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


def test_rows_that_contradict_the_file_are_left_out(tmp_path: Path) -> None:
    run(put(tmp_path / "giro.csv", (
        "Date,Payee,Amount,Currency\n2026-01-13,A,-4.50,EUR\n2026-01-13,A,-5.50,EUR\n"
        '2026-01-14,B,"-1.250,00",EUR\n2026-01-15,C,-12,50,EUR\n2026-01-16,D,-1.234,EUR\n'
        "2026-01-17,E,-1.234,KWD\n2026-01-18,F,99999999999999.99,EUR\nTotal,,-10.00,EUR\n"
    )))  # fmt: skip

    assert bookings() == [
        ("2026-01-13", Decimal("-5.5"), "EUR"),
        ("2026-01-13", Decimal("-4.5"), "EUR"),
        ("2026-01-17", Decimal("-1.234"), "KWD"),
    ]
    assert receipts() == {
        ("bad_amount", "line 4"), ("malformed", "line 5"), ("bad_amount", "line 6"),
        ("bad_amount", "line 8"), ("not_a_booking", "line 9"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dates", "first"),
    [
        (("26-01-05", "26-01-28"), "2026-01-05"),
        (("05/01/26", "28/01/26"), "2026-01-05"),
        (("01/05/26", "01/28/26"), "2026-01-05"),
        (("5. Januar 2026", "28. Januar 2026"), "2026-01-05"),
        (("5 janv. 2026", "28 févr. 2026"), "2026-01-05"),
        (("Jan 5, 2026", "Jan 28, 2026"), "2026-01-05"),
        (("05-JAN-26", "28-JAN-26"), "2026-01-05"),
        (("20260105", "20260128"), "2026-01-05"),
        (("2026年1月5日", "2026年1月28日"), "2026-01-05"),
        (("2026-01-05T10:00:00Z", "2026-01-28T10:00:00Z"), "2026-01-05"),
    ],
)
def test_written_dates(tmp_path: Path, dates: tuple[str, str], first: str) -> None:
    rows = "".join(f'"{date}",Shop,-1.50\n' for date in dates)
    run(put(tmp_path / "giro.csv", "Date,Payee,Amount\n" + rows))

    assert bookings()[0][0] == first
    assert receipts() == set()


@pytest.mark.parametrize(
    ("date", "order", "expected"),
    [
        ("08.01.13", "reiwa", "2026-01-13"),
        ("08.01.13", "ymd", "2008-01-13"),
        ("08.01.13", "dmy", "2013-01-08"),
        ("8/1/13", "reiwa", "2026-01-13"),
    ],
)
def test_two_digit_years_of_a_japanese_table_are_asked_about(
    tmp_path: Path, date: str, order: str, expected: str
) -> None:
    path = put(tmp_path / "a.csv", f"日付,摘要,金額\n{date},A,-1500\n")

    with pytest.raises(CommandError):
        run(path)
    assert bookings() == []
    run(path, date_order=order)
    assert [on for on, _, _ in bookings()] == [expected]


@pytest.mark.parametrize(
    "date", ["26.01.13", "26/01/13", "2026.01.13", "R8.01.13", "令和8年1月13日"]
)
def test_clear_dates_of_a_japanese_table_are_not_asked_about(tmp_path: Path, date: str) -> None:
    run(put(tmp_path / "a.csv", f"日付,摘要,金額\n{date},A,-1500\n"))

    assert [on for on, _, _ in bookings()] == ["2026-01-13"]


def test_import_ends_with_totals_by_account_and_currency(tmp_path: Path) -> None:
    put(tmp_path / "bank/giro.csv", GERMAN)
    put(tmp_path / "bank/usd.csv", AMERICAN.replace("Amount", "Amount (USD)"))

    output = run(tmp_path / "bank")

    lines = [" ".join(line.split()) for line in output.splitlines()]
    assert "2 transactions Bank, giro 2026-01-13 2026-01-14 750.50 EUR" in lines
    assert "2 transactions Bank, usd 2026-01-13 2026-01-14 -1,230.06 USD" in lines
    again = run(tmp_path / "bank")
    assert "750.50 EUR" in again


def test_watched_folder_keeps_a_doubtful_file_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "WAITING_SECONDS", 0)
    folder = tmp_path / "watched"
    text = "Date,Payee,Amount\n03/04/2026,A,-1.50\n05/06/2026,B,-2.50\n"
    path = put(folder / "giro.csv", text)
    os.utime(path, (time.time() - 100,) * 2)
    worker = background.ImportWorker(tmp_path / "imports", watch=folder, seconds=0)

    list(worker.job())
    assert records("transactions") == records("accounts") == []

    run(put(tmp_path / "other/giro.csv", text.replace(",A,", ",C,")), date_order="mdy")
    list(worker.job())
    assert {record["date"] for record in records("transactions")} == {"2026-03-04", "2026-05-06"}
    assert len(records("transactions")) == 3
