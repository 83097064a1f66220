"""OFX statements have the bookings that the library ofxtools reads in them."""

import html
import io
import random
from decimal import Decimal
from pathlib import Path

import pytest
from ofxtools.Parser import OFXTree

from tests.importers.imports import receipts, records, run

pytestmark = pytest.mark.django_db
HEADERS = {
    "sgml": "OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\nSECURITY:NONE\nENCODING:USASCII\nCHARSET:1252\n"
    "COMPRESSION:NONE\nOLDFILEUID:NONE\nNEWFILEUID:NONE\n\n",
    "xml": '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n'
    '<?OFX OFXHEADER="200" VERSION="211" SECURITY="NONE" OLDFILEUID="NONE" NEWFILEUID="NONE"?>\n',
}
NAMES = ["Café Müller", "AT&T", "Shop <1>", "Zoë", "Rewe", "x" * 32]
STATUS = "<STATUS><CODE>0</CODE><SEVERITY>INFO</SEVERITY></STATUS>"


def statement(kind: str, account: str, currency: str, rng: random.Random) -> str:
    bookings = "".join(
        f"<STMTTRN><TRNTYPE>{rng.choice(['DEBIT', 'CREDIT', 'POS', 'OTHER'])}</TRNTYPE>"
        f"<DTPOSTED>2026{rng.randint(1, 12):02}{rng.randint(1, 28):02}120000[-5:EST]</DTPOSTED>"
        f"<TRNAMT>{Decimal(rng.randint(-99_999, 99_999)) / 100}</TRNAMT><FITID>{account}{number:05}</FITID>"
        f"<NAME>{html.escape(rng.choice(NAMES))}</NAME><MEMO>No. {number}</MEMO></STMTTRN>\n"
        for number in range(120)
    )
    prefix, owner = ("CC", "") if kind == "card" else ("", "<BANKID>123456789</BANKID>")
    kind_element = "" if kind == "card" else "<ACCTTYPE>CHECKING</ACCTTYPE>"
    source = "CCACCTFROM" if kind == "card" else "BANKACCTFROM"
    return (
        f"<{prefix}STMTTRNRS><TRNUID>1</TRNUID>{STATUS}<{prefix}STMTRS><CURDEF>{currency}</CURDEF>"
        f"<{source}>{owner}<ACCTID>{account}</ACCTID>{kind_element}</{source}>"
        f"<BANKTRANLIST><DTSTART>20260101</DTSTART><DTEND>20261231</DTEND>{bookings}</BANKTRANLIST>"
        f"<LEDGERBAL><BALAMT>{account[-3:]}.50</BALAMT><DTASOF>20261231</DTASOF></LEDGERBAL>"
        f"</{prefix}STMTRS></{prefix}STMTTRNRS>"
    )


def ofx(form: str, rng: random.Random) -> bytes:
    banks = statement("bank", "1001", "USD", rng) + statement("bank", "1002", "EUR", rng)
    cards = statement("card", "4111000000001003", "GBP", rng)
    text = (
        f"{HEADERS[form]}<OFX><SIGNONMSGSRSV1><SONRS>{STATUS}<DTSERVER>20261231</DTSERVER>"
        f"<LANGUAGE>ENG</LANGUAGE></SONRS></SIGNONMSGSRSV1><BANKMSGSRSV1>{banks}</BANKMSGSRSV1>"
        f"<CREDITCARDMSGSRSV1>{cards}</CREDITCARDMSGSRSV1></OFX>"
    )
    return text.encode("cp1252" if form == "sgml" else "utf-8")


@pytest.mark.parametrize("form", ["sgml", "xml"])
def test_statement_has_the_bookings_of_another_library(tmp_path: Path, form: str) -> None:
    content = ofx(form, random.Random(3))  # noqa: S311 - not a secret
    path = tmp_path / "a.ofx"
    path.write_bytes(content)

    run(path)

    tree = OFXTree()
    tree.parse(io.BytesIO(content))
    statements = tree.convert().statements
    names = {record["id"]: record["name"] for record in records("accounts")}
    found = [
        (names[row["account_id"]][-4:], row["date"], Decimal(str(row["amount"])), row["currency"],
         row["counterparty"], row["memo"], row["reference"], row["kind"])
        for row in records("transactions")
    ]  # fmt: skip
    expected = [
        (each.account.acctid[-4:], f"{booking.dtposted:%Y-%m-%d}", booking.trnamt, each.curdef,
         booking.name, booking.memo, booking.fitid, booking.trntype.lower())
        for each in statements
        for booking in each.transactions
    ]  # fmt: skip
    assert len(expected) == 360
    assert sorted(found) == sorted(expected)
    balances = {(each.account.acctid[-4:], each.curdef, each.balance.balamt) for each in statements}
    assert balances == {
        (row["name"][-4:], row["currency"], Decimal(str(row["balance"])))
        for row in records("accounts")
    }
    assert receipts() == set()
