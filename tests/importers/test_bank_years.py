"""A year of bookings in the layout of each bank is imported unchanged."""

import csv
import io
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import mt940
import pytest

from tests.importers.imports import latest, receipts, records, run
from tests.importers.test_demo_year import demo_records

pytestmark = pytest.mark.django_db


class Booking(NamedTuple):
    on: date
    amount: Decimal
    name: str
    memo: str


def year() -> list[Booking]:
    return [
        Booking(
            date.fromisoformat(data["date"]),
            Decimal(data["amount"]) / 100,
            data["counterparty"],
            data["memo"] or "",
        )
        for data in demo_records("transactions", "bank")
    ]


def table(header: str, rows: Iterable[Iterable[object]], *, delimiter: str = ",") -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(header.split(delimiter))
    writer.writerows(rows)
    return out.getvalue()


def comma(amount: Decimal) -> str:
    return f"{amount:,.2f}".translate(str.maketrans(",.", ".,"))


def camt(bookings: list[Booking]) -> str:
    entries = "".join(
        f'<Ntry><Amt Ccy="EUR">{abs(each.amount)}</Amt>'
        f"<CdtDbtInd>{'DBIT' if each.amount < 0 else 'CRDT'}</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts>"
        f"<BookgDt><Dt>{each.on}</Dt></BookgDt><AcctSvcrRef>R{number}</AcctSvcrRef>"
        f"<NtryDtls><TxDtls><RmtInf><Ustrd>{escape(each.memo)}</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>\n"
        for number, each in enumerate(bookings)
    )
    return (
        '<?xml version="1.0"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08">'
        "<BkToCstmrStmt><Stmt><Acct><Id><IBAN>DE89370400440532013000</IBAN></Id><Ccy>EUR</Ccy></Acct>"
        f"{entries}</Stmt></BkToCstmrStmt></Document>"
    )


def swift(bookings: list[Booking]) -> str:
    lines = [":20:YEAR", ":25:37040044/532013000", ":28C:1/1", ":60F:C250101EUR0,00"]
    for each in bookings:
        sign, written = "D" if each.amount < 0 else "C", f"{abs(each.amount):.2f}".replace(".", ",")
        lines += [f":61:{each.on:%y%m%d%m%d}{sign}{written}NMSCNONREF",
                  f":86:105?00BOOKING?20{each.memo[:27]}?32{each.name[:27]}"]  # fmt: skip
    total = sum(each.amount for each in bookings)
    closing = f"{abs(total):.2f}".replace(".", ",")
    return "\n".join([*lines, f":62F:{'D' if total < 0 else 'C'}251231EUR{closing}", "-", ""])


def paypal(bookings: list[Booking]) -> str:
    header = "Date,Time,TimeZone,Name,Type,Status,Currency,Gross,Fee,Net,Transaction ID"
    return table(header, (
        [f"{each.on:%m/%d/%Y}", "10:00:00", "CET", each.name, "Payment", "Completed", "EUR",
         f"{each.amount:,.2f}", "0.00", f"{each.amount:,.2f}", f"T{number}"]
        for number, each in enumerate(bookings)
    ))  # fmt: skip


def amex(bookings: list[Booking]) -> str:
    return table("Date,Description,Card Member,Account #,Amount", (
        [f"{each.on:%m/%d/%Y}", each.name, "IDA LANG", "-71001", f"{-each.amount:.2f}"]
        for each in bookings
    ))  # fmt: skip


def discover(bookings: list[Booking]) -> str:
    return table("Trans. Date,Post Date,Description,Amount,Category", (
        [f"{each.on:%m/%d/%Y}", f"{each.on:%m/%d/%Y}", each.name, f"{-each.amount:.2f}", "Shops"]
        for each in bookings
    ))  # fmt: skip


def apple(bookings: list[Booking]) -> str:
    header = "Transaction Date,Clearing Date,Description,Merchant,Category,Type,Amount (USD),Purchased By"
    return table(header, (
        [f"{each.on:%m/%d/%Y}", f"{each.on:%m/%d/%Y}", each.memo, each.name, "Other", "Purchase",
         f"{-each.amount:.2f}", "Ida"] for each in bookings
    ))  # fmt: skip


def ing(bookings: list[Booking]) -> str:
    header = (
        "Datum;Naam / Omschrijving;Rekening;Tegenrekening;Code;Af Bij;Bedrag (EUR);Mutatiesoort;"
        "Mededelingen"
    )
    return table(header, (
        [f"{each.on:%Y%m%d}", each.name, "NL20INGB0001234567", "", "BA",
         "Af" if each.amount < 0 else "Bij", comma(abs(each.amount)).replace(".", ""), "Betaalautomaat",
         each.memo] for each in bookings
    ), delimiter=";")  # fmt: skip


def wise(bookings: list[Booking]) -> str:
    header = (
        "TransferWise ID,Date,Amount,Currency,Description,Payment Reference,Running Balance,"
        "Exchange From,Exchange To,Exchange Rate,Payer Name,Payee Name,Merchant,Total fees"
    )
    return table(header, (
        [f"CARD-{number}", f"{each.on:%d-%m-%Y}", f"{each.amount:.2f}", "EUR", each.memo, "", "0.00", "",
         "", "", "", each.name, "", "0.00"] for number, each in enumerate(bookings)
    ))  # fmt: skip


def revolut(bookings: list[Booking]) -> str:
    header = (
        "Type,Product,Started Date,Completed Date,Description,Amount,Fee,Currency,State,Balance"
    )
    return table(header, (
        ["CARD_PAYMENT", "Current", f"{each.on} 10:00:{number % 60:02}", f"{each.on} 10:00:00", each.name,
         f"{each.amount:.2f}", "0.00", "EUR", "COMPLETED", "0.00"]
        for number, each in enumerate(bookings)
    ))  # fmt: skip


def ofx(bookings: list[Booking]) -> str:
    entries = "".join(
        f"<STMTTRN><TRNTYPE>OTHER<DTPOSTED>{each.on:%Y%m%d}<TRNAMT>{each.amount}<FITID>{number}"
        f"<NAME>{escape(each.name[:32])}<MEMO>{escape(each.memo)}</STMTTRN>\n"
        for number, each in enumerate(bookings)
    )
    return (
        "OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\nENCODING:UNICODE\nCHARSET:NONE\n\n<OFX><BANKMSGSRSV1>"
        "<STMTTRNRS><TRNUID>1<STMTRS><CURDEF>EUR<BANKACCTFROM><BANKID>37040044<ACCTID>0532013000"
        f"<ACCTTYPE>CHECKING</BANKACCTFROM><BANKTRANLIST>{entries}</BANKTRANLIST></STMTRS></STMTTRNRS>"
        "</BANKMSGSRSV1></OFX>"
    )


def qif(bookings: list[Booking]) -> str:
    entries = "".join(
        f"D{each.on:%m/%d/%Y}\nT{each.amount:,.2f}\nP{each.name}\nM{each.memo}\n^\n"
        for each in bookings
    )
    return f"!Account\nNGiro\nTBank\n^\n!Type:Bank\n{entries}"


LAYOUTS: dict[str, Callable[[list[Booking]], str]] = {
    "year.xml": camt, "year.sta": swift, "paypal.csv": paypal, "amex.csv": amex,
    "discover.csv": discover, "apple.csv": apple, "ing.csv": ing, "wise.csv": wise,
    "revolut.csv": revolut, "year.ofx": ofx, "year.qif": qif,
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_year_of_bookings(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(LAYOUTS[name](year()))

    run(path)

    assert receipts() == set()
    read = sorted(
        (record["date"], Decimal(str(record["amount"]))) for record in records("transactions")
    )
    assert read == sorted((each.on.isoformat(), each.amount) for each in year())
    assert len(read) > 100
    run(path)
    assert (latest().created, latest().updated) == (0, 0)


def test_year_of_mt940_is_what_another_library_reads(tmp_path: Path) -> None:
    path = tmp_path / "year.sta"
    path.write_text(swift(year()))

    run(path)

    expected = sorted(
        (each.data["date"].isoformat(), each.data["amount"].amount)
        for each in mt940.parse(path.read_text())
    )
    assert expected == sorted(
        (record["date"], Decimal(str(record["amount"]))) for record in records("transactions")
    )
