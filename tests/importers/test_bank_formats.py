"""OFX, QIF, camt.053 and MT940, and rows that the release before stored."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import mt940
import orjson
import pytest
from django.utils import timezone

from evidence.models.accounts import get_or_create_owner
from evidence.write.connections import create_connection
from evidence.write.declaration_store import declare
from evidence.write.ingest import ingest_lines
from evidence.write.ndjson import NdjsonLine
from evidence.write.record_erasure import delete_record
from importers.bank import records as bank_records
from importers.core.results import ContentKeys, ParsedRecord
from importers.models import ImportReceipt
from importers.registry import installed_importers
from tests.importers.imports import TORTURE, latest, one, receipts, records, run
from tests.importers.test_bank_csv import account_names, bookings, put

pytestmark = pytest.mark.django_db


def ofx(
    *bookings: str, currency: str = "EUR", account: str = "DE1234567890", bank: str = "2005"
) -> str:
    return (
        f"<STMTTRNRS><STMTRS><CURDEF>{currency}"
        f"<BANKACCTFROM><BANKID>{bank}<ACCTID>{account}</BANKACCTFROM>"
        f"<BANKTRANLIST>{''.join(f'<STMTTRN>{each}</STMTTRN>' for each in bookings)}</BANKTRANLIST>"
        "</STMTRS></STMTTRNRS>"
    )


def document(*statements: str) -> str:
    return f"OFXHEADER:100\nCHARSET:UTF-8\n\n<OFX><BANKMSGSRSV1>{''.join(statements)}</BANKMSGSRSV1></OFX>"


def booking(
    amount: str, *, fitid: str = "2026010500017", day: str = "20260105", more: str = ""
) -> str:
    return f"<TRNTYPE>DEBIT<DTPOSTED>{day}<TRNAMT>{amount}<FITID>{fitid}{more}\n"


def test_booking_with_another_name_is_the_same(tmp_path: Path) -> None:
    run(
        put(
            tmp_path / "january.ofx",
            document(ofx(booking("-42.00", more="<NAME>CARD 123<MEMO>pending"))),
        )
    )
    february = ofx(
        booking("-42.0", day="20260105120000", more="<NAME>Bookshop<MEMO>Books"),
        booking("-9.99", fitid="2026020100001", day="20260201"),
    )
    run(put(tmp_path / "february.ofx", document(february)))

    assert [amount for _, amount, _ in bookings()] == [Decimal("-42.0"), Decimal("-9.99")]
    assert one("transactions", amount=-42)["counterparty"] == "Bookshop"


def test_numbers_of_each_statement_are_no_identity(tmp_path: Path) -> None:
    run(put(tmp_path / "january.ofx", document(ofx(booking("-500.00", fitid="1")))))
    run(
        put(tmp_path / "february.ofx", document(ofx(booking("-500.00", fitid="1", day="20260205"))))
    )

    assert len(bookings()) == 2


def test_each_statement_has_its_currency(tmp_path: Path) -> None:
    converted = "<NAME>Hotel<ORIGCURRENCY><CURRATE>1.1<CURSYM>CHF</ORIGCURRENCY>"
    foreign = "<NAME>Taxi<CURRENCY><CURRATE>1.1<CURSYM>GBP</CURRENCY>"
    bought = (
        "<INVSTMTRS><CURDEF>USD<INVACCTFROM><BROKERID>B<ACCTID>INV99999</INVACCTFROM><INVTRANLIST>"
        "<BUYSTOCK><INVBUY><INVTRAN><FITID>7<DTTRADE>20260105</INVTRAN><TOTAL>-5</INVBUY></BUYSTOCK>"
        "</INVTRANLIST></INVSTMTRS>"
    )
    run(put(tmp_path / "two.ofx", document(
        ofx(booking("-1.00", more=converted)),
        ofx(booking("-2.00", more=foreign), booking("-3.00", fitid="2026010500018"),
            currency="USD", account="US99999"),
        bought,
    )))  # fmt: skip

    assert [currency for _, _, currency in bookings()] == ["USD", "GBP", "EUR"]
    assert account_names() == {"Account …7890": "EUR", "Account …9999": "USD"}
    assert ("not_supported", "line 7") in receipts()


def test_qif_records_may_end_with_two_carets_and_dates_are_found_for_each_file(
    tmp_path: Path,
) -> None:
    put(
        tmp_path / "q/german.qif",
        "!Type:Bank\nD13.01.2026\nT-1.234,56\nPA\n^^\nD14.01.2026\nT-2,00\nPB\n^^\n",
    )
    put(
        tmp_path / "q/american.qif",
        "!Type:Bank\nD01/15/2026\nT-1,234.56\nPA\n^\nD01/16/2026\nT-2.00\nPB\n^\n",
    )

    run(tmp_path / "q")

    assert [(day, amount) for day, amount, _ in bookings()] == [
        ("2026-01-13", Decimal("-1234.56")), ("2026-01-14", Decimal("-2.0")),
        ("2026-01-15", Decimal("-1234.56")), ("2026-01-16", Decimal("-2.0")),
    ]  # fmt: skip


CAMT = """<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.{version}"><BkToCstmrStmt><Stmt>
<Acct><Id><IBAN>DE89370400440532013000</IBAN></Id><Ccy>EUR</Ccy></Acct>
<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">87.50</Amt><CdtDbtInd>CRDT</CdtDbtInd>
<Dt><Dt>2026-01-31</Dt></Dt></Bal>
<Ntry><Amt Ccy="EUR">12.50</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts>{booked}</Sts><BookgDt><Dt>2026-01-13</Dt></BookgDt>
<AcctSvcrRef>R1</AcctSvcrRef><NtryDtls><TxDtls><RltdPties><Cdtr>{name}</Cdtr><CdtrAcct><Id>
<IBAN>DE02120300000000202051</IBAN></Id></CdtrAcct></RltdPties><RmtInf><Ustrd>Kauf</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>
<Ntry><Amt Ccy="EUR">12.50</Amt><CdtDbtInd>CRDT</CdtDbtInd><RvslInd>true</RvslInd><Sts>{booked}</Sts>
<BookgDt><DtTm>2026-01-14T10:00:00+01:00</DtTm></BookgDt><AcctSvcrRef>R2</AcctSvcrRef></Ntry>
<Ntry><Amt Ccy="EUR">99.00</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts>{pending}</Sts></Ntry>
</Stmt></BkToCstmrStmt></Document>"""


@pytest.mark.parametrize(
    ("version", "booked", "pending", "name"),
    [
        ("02", "BOOK", "PDNG", "<Nm>Shop</Nm>"),
        ("08", "<Cd>BOOK</Cd>", "<Cd>PDNG</Cd>", "<Pty><Nm>Shop</Nm></Pty>"),
    ],
)
def test_camt_entries(tmp_path: Path, version: str, booked: str, pending: str, name: str) -> None:
    text = CAMT.format(version=version, booked=booked, pending=pending, name=name)
    path = put(tmp_path / "statement.xml", text)

    run(path)
    run(path)

    assert latest().created == 0
    assert [(day, amount) for day, amount, _ in bookings()] == [
        ("2026-01-13", Decimal("-12.5")), ("2026-01-14", Decimal("12.5")),
    ]  # fmt: skip
    shop = one("transactions", counterparty="Shop")
    assert (shop["memo"], shop["counterparty_account"]) == ("Kauf", "DE02120300000000202051")
    assert one("accounts")["balance"] == 87.5
    assert ("not_booked", "entry 3") in receipts()


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le"])
def test_camt_in_utf_16_is_read(tmp_path: Path, charset: str) -> None:
    text = CAMT.format(version="02", booked="BOOK", pending="PDNG", name="<Nm>Käse</Nm>")
    run(put(tmp_path / "statement.xml", text.replace("UTF-8", "UTF-16"), charset))

    assert one("transactions", counterparty="Käse")["amount"] == -12.5


def test_camt_in_utf_16_with_a_document_type_is_refused(tmp_path: Path) -> None:
    text = CAMT.format(version="02", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    text = text.replace("<Document", '<!DOCTYPE a [<!ENTITY b "c">]><Document', 1)
    run(put(tmp_path / "statement.xml", text.replace("UTF-8", "UTF-16"), "utf-16"))

    assert receipts() == {("malformed", "statement.xml")}


MT940 = """:20:STARTUMS
:25:20050550/DE89370400440532013000
:28C:1/1
:60F:C260101EUR1000,00
:61:2601130113DR12,50N001NONREF
:86:106?00KARTENZAHLUNG?20Einkauf?31DE02120300000000202051?32REWE
:61:2601140114CR2000,N062REF123//BANKREF
:86:166?00GUTSCHRIFT?20Lohn?32ACME GMBH
:61:2601150115RC5,00NMSCNONREF
:86:reversal of a credit
:61:2601169999D5,00NMSCNONREF
:86:no such day
:62F:C260115EUR2982,50
-
"""


def test_mt940_bookings_equal_the_balance(tmp_path: Path) -> None:
    run(put(tmp_path / "statement.sta", MT940.replace("\n", "\r\n"), "cp1252"))

    total = sum(amount for _, amount, _ in bookings())
    statement = mt940.parse(MT940.replace(":61:2601169999D5,00NMSCNONREF\n:86:no such day\n", ""))
    balances = [
        statement.data[f"final_{name}_balance"].amount.amount for name in ("closing", "opening")
    ]
    assert total == balances[0] - balances[1]
    assert one("transactions", counterparty="REWE")["amount"] == -12.5
    assert receipts() == {("malformed", "line 11")}


def test_statement_without_an_account_costs_itself_only(tmp_path: Path) -> None:
    run(TORTURE / "statement.sta")
    run(TORTURE / "camt.xml")

    assert account_names() == {
        "Account …3000": "EUR",
        "Account …4300": "EUR",
        "Account …4711": None,
    }
    found = {(row.file, row.code, row.detail) for row in ImportReceipt.unscoped.all()}
    assert ("statement.sta", "no_identity", "no account (:25:)") in found
    assert ("camt.xml", "no_identity", "account") in found
    # The library cuts amounts after 15 characters.
    assert ("statement.sta", "bad_amount", "99999999999999999999999999,99") in found
    assert max(abs(record["amount"]) for record in records("transactions")) == 2000


def earlier_release(*parsed: ParsedRecord) -> str:
    """Store records as the release before did, and return the connection."""
    now = timezone.now()
    owner_id = get_or_create_owner(now).owner_id
    csv = next(importer for importer in installed_importers() if importer.name == "csv")
    declare(csv.declaration, owner_id=owner_id, now=now)
    connection_id = create_connection(
        csv.connector_key, display_name="Bank", owner_id=owner_id, languages=(), now=now
    )

    def lines() -> Iterator[NdjsonLine]:
        for number, record in enumerate(parsed, 1):
            line: dict[str, Any] = {"connection_id": connection_id, "stream": record.stream}
            yield NdjsonLine(
                number, orjson.dumps(line | {"key": record.data["id"], "data": record.data})
            )

    ingest_lines(lines(), owner_id=owner_id, now=now)
    return connection_id


ROWS = [
    {"Date": "01/13/2026", "Description": "Shop", "Amount": "-1,234.56"},
    {"Date": "01/14/2026", "Description": "Refund", "Amount": "4.50"},
]
STATEMENT = 'Date,Description,Amount\n01/13/2026,Shop,"-1,234.56"\n01/14/2026,Refund,4.50\n'


EARLIER_KEYS = ["v_63bc2fb2dbd5a07533c40e52be05", "v_a9772f5d92d3b00aa9534efb01bf"]
"""As the release before computed them for STATEMENT."""


def earlier_rows() -> list[ParsedRecord]:
    """Return the rows of STATEMENT as read with the decimal comma of another file."""
    keys = ContentKeys("v_")
    columns = bank_records.earlier_csv_columns(("Date", "Description", "Amount"), {})
    return [
        bank_records.transaction_record(
            bank_records.earlier_csv_key(keys, row, columns),
            account=bank_records.EARLIER_CSV_ACCOUNT,
            on=datetime.strptime(row["Date"], "%m/%d/%Y").date(),  # noqa: DTZ007
            amount=Decimal(wrong),
        )
        for row, wrong in zip(ROWS, ("-123456", "450"), strict=True)
    ]


def test_rows_of_the_release_before_are_replaced(tmp_path: Path) -> None:
    # The keys are those that the release before computed.
    assert [row.data["id"] for row in earlier_rows()] == EARLIER_KEYS
    account = bank_records.account_record(bank_records.EARLIER_CSV_ACCOUNT, name="Account")
    earlier_release(account, *earlier_rows())

    run(put(tmp_path / "giro.csv", STATEMENT))

    assert [amount for _, amount, _ in bookings()] == [Decimal("-1234.56"), Decimal("4.5")]
    assert account_names() == {"giro": None}
    run(tmp_path / "giro.csv")
    assert (latest().created, latest().unchanged) == (0, 3)


def test_erased_rows_of_the_release_before_stay_erased(tmp_path: Path) -> None:
    connection_id = earlier_release(*earlier_rows())
    delete_record(
        connection_id,
        stream="transactions",
        record_key=EARLIER_KEYS[0],
        suppress=True,
        now=timezone.now(),
    )

    run(put(tmp_path / "giro.csv", STATEMENT))
    run(tmp_path / "giro.csv")

    assert [amount for _, amount, _ in bookings()] == [Decimal("4.5")]
    assert ("erased", "line 2") in receipts()


def test_ofx_rows_of_the_release_before_are_replaced_whatever_their_name_was(
    tmp_path: Path,
) -> None:
    elements = {
        "FITID": "2026010500017",
        "DTPOSTED": "20260105",
        "TRNAMT": "-42.00",
        "NAME": "CARD",
    }
    account = bank_records.account_id("2005", "DE1234567890")
    earlier_release(
        bank_records.transaction_record(
            bank_records.earlier_ofx_key(ContentKeys("o_"), account, elements),
            account=account,
            on=datetime(2026, 1, 5).date(),  # noqa: DTZ001
            amount=Decimal("-42.00"),
            reference="2026010500017",
            counterparty="CARD",
        )
    )

    run(put(tmp_path / "february.ofx", document(ofx(booking("-42.00", more="<NAME>Bookshop")))))

    (only,) = records("transactions")
    assert only["counterparty"] == "Bookshop"


TWO_OF_ONE_ID = ({"NAME": "CARD", "MEMO": "Bread"}, {"NAME": "CARD", "MEMO": "Books"})


def two_of_one_id() -> list[ParsedRecord]:
    """Return two bookings with one id as the release before stored them."""
    keys, account = ContentKeys("o_"), bank_records.account_id("2005", "DE1234567890")
    same = {"FITID": "2026010500017", "DTPOSTED": "20260105", "TRNAMT": "-42.00"}
    return [
        bank_records.transaction_record(
            bank_records.earlier_ofx_key(keys, account, same | texts),
            account=account,
            on=datetime(2026, 1, 5).date(),  # noqa: DTZ001
            amount=Decimal("-42.00"),
            reference="2026010500017",
            counterparty=texts["NAME"],
            memo=texts["MEMO"],
        )
        for texts in TWO_OF_ONE_ID
    ]


def statement_with_two_of_one_id() -> str:
    return document(
        ofx(
            *(
                booking("-42.00", more=f"<NAME>{each['NAME']}<MEMO>{each['MEMO']}")
                for each in TWO_OF_ONE_ID
            )
        )
    )


@pytest.mark.parametrize(
    ("erased", "left"), [(None, ["Books", "Bread"]), (0, ["Books"]), (1, ["Bread"])]
)
def test_ofx_bookings_with_one_id_of_the_release_before_are_replaced(
    tmp_path: Path, erased: int | None, left: list[str]
) -> None:
    before = two_of_one_id()
    connection_id = earlier_release(*before)
    if erased is not None:
        erase(connection_id, before[erased])
    path = put(tmp_path / "january.ofx", statement_with_two_of_one_id())

    run(path)
    run(path)

    assert latest().created == 0
    assert sorted(record["memo"] for record in records("transactions")) == left


DIVIDED = [
    {"Account": "Giro", "Date": "01/13/2026", "Description": "Shop", "Amount": "-5.00"},
    {"Account": "Savings", "Date": "01/13/2026", "Description": "Shop", "Amount": "-5.00"},
    {"Account": "Giro", "Date": "01/14/2026", "Description": "Refund", "Amount": "4.50"},
    {"Account": "Savings", "Date": "01/15/2026", "Description": "Interest", "Amount": "0.50"},
]


@pytest.mark.parametrize("erased", [None, 0, 1, 2])
def test_rows_of_the_release_before_are_divided_by_a_column_of_accounts(
    tmp_path: Path, erased: int | None
) -> None:
    keys, columns = ContentKeys("v_"), bank_records.earlier_csv_columns(tuple(DIVIDED[0]), {})
    before = [
        bank_records.transaction_record(
            bank_records.earlier_csv_key(keys, row, columns),
            account=bank_records.EARLIER_CSV_ACCOUNT,
            on=datetime.strptime(row["Date"], "%m/%d/%Y").date(),  # noqa: DTZ007
            amount=Decimal(row["Amount"]),
        )
        for row in DIVIDED
    ]
    account = bank_records.account_record(bank_records.EARLIER_CSV_ACCOUNT, name="Account")
    connection_id = earlier_release(account, *before)
    if erased is not None:
        erase(connection_id, before[erased])
    lines = [",".join(DIVIDED[0]), *(",".join(row.values()) for row in DIVIDED)]
    path = put(tmp_path / "all.csv", "\n".join(lines) + "\n")

    run(path)
    run(path)

    assert latest().created == 0
    left = [row for number, row in enumerate(DIVIDED) if number != erased]
    assert sorted(record["amount"] for record in records("transactions")) == sorted(
        float(row["Amount"]) for row in left
    )
    assert account_names() == {"Giro": None, "Savings": None}


def erase(connection_id: str, record: ParsedRecord) -> None:
    delete_record(
        connection_id,
        stream=record.stream,
        record_key=record.data["id"],
        suppress=True,
        now=timezone.now(),
    )


@pytest.mark.parametrize(
    "written",
    ["13.01.2569", "2569-01-13", "13. siječnja 2026", "13 січня 2026", "13. listopada 2025."],
)
def test_receipts_name_dates_that_cannot_be_read(tmp_path: Path, written: str) -> None:
    text = f"Date,Description,Amount\n{written},Shop,-5.00\n14.01.2026,Shop,-6.50\n15.01.2026,Shop,-7.50\n"
    run(put(tmp_path / "giro.csv", text))

    assert [(row.place, row.detail) for row in ImportReceipt.unscoped.all()] == [
        ("line 2", written)
    ]
