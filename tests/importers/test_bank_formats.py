"""OFX, QIF, camt.053 and MT940."""

from decimal import Decimal
from pathlib import Path

import mt940
import pytest

from importers.models import ImportReceipt
from tests.importers.bank import account_names, bookings, put
from tests.importers.imports import TORTURE, latest, one, receipts, records, run

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


def test_bookings_in_a_list_of_qif_accounts_are_bookings(tmp_path: Path) -> None:
    text = (
        "!Account\nNHome\nTOth L\nB0.00\n^\nD1/13/11\nN101\nPHome\nT500.00\n^\n"
        "NChecking\nTBank\n^\nD1/14/11\nMNo amount\n^\n"
        "!Type:Bank\nD1/15/11\nT-1,000.00\n^\n!Account\nNHome\nTOth L\n^\nD1/16/11\nN102\nU$7.00\n"
    )
    run(put(tmp_path / "a.qif", text))

    assert account_names() == {"Home": None, "Checking": None}
    assert [(day, amount) for day, amount, _ in bookings()] == [
        ("2011-01-13", Decimal(500)), ("2011-01-15", Decimal(-1000)), ("2011-01-16", Decimal(7)),
    ]  # fmt: skip
    assert receipts() == {("bad_amount", "line 14")}


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


def test_entries_of_a_camt_report_and_of_the_statement_after_it_are_one(tmp_path: Path) -> None:
    statement = CAMT.format(version="08", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    report = statement.replace("BkToCstmrStmt", "BkToCstmrAcctRpt").replace("Stmt>", "Rpt>")
    run(put(tmp_path / "report.xml", report))
    found = bookings()
    run(put(tmp_path / "statement.xml", statement))

    assert [amount for _, amount, _ in found] == [Decimal("-12.5"), Decimal("12.5")]
    assert bookings() == found
    assert one("accounts")["balance"] == 87.5


def test_entries_of_camt_without_a_reference_are_told_apart_by_their_text(tmp_path: Path) -> None:
    text = CAMT.format(version="08", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    text = text.replace("<AcctSvcrRef>R1<", "<AcctSvcrRef>NONREF<")
    run(put(tmp_path / "a.xml", text))
    run(put(tmp_path / "b.xml", text.replace("Kauf", "Miete")))

    memos = sorted(row["memo"] for row in records("transactions") if row["amount"] == -12.5)
    assert memos == ["Kauf", "Miete"]


@pytest.mark.parametrize("name", ["statement.txt", "camt053"])
def test_camt_is_recognized_without_its_suffix(tmp_path: Path, name: str) -> None:
    run(put(tmp_path / name, CAMT.format(version="02", booked="BOOK", pending="PDNG", name="")))

    assert len(bookings()) == 2


def test_note_that_names_an_element_of_camt_is_a_document(tmp_path: Path) -> None:
    run(put(tmp_path / "note.txt", "In <BkToCstmrStmt> the bank writes my bookings."))

    assert receipts() == set()
    assert len(records("documents")) == 1


def test_camt_in_utf_16_with_a_document_type_is_refused(tmp_path: Path) -> None:
    text = CAMT.format(version="02", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    text = text.replace("<Document", '<!DOCTYPE a [<!ENTITY b "c">]><Document', 1)
    run(put(tmp_path / "statement.xml", text.replace("UTF-8", "UTF-16"), "utf-16"))

    assert receipts() == {("malformed", "statement.xml")}


def test_notification_of_camt_is_refused_by_its_name(tmp_path: Path) -> None:
    statement = CAMT.format(version="08", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    text = statement.replace("BkToCstmrStmt", "BkToCstmrDbtCdtNtfctn").replace("Stmt>", "Ntfctn>")
    run(put(tmp_path / "notification.xml", text))

    assert records("transactions") == []
    assert [(row.code, row.detail) for row in ImportReceipt.unscoped.all()] == [
        ("not_supported", "camt.054, a notification: camt.053 and camt.052 have its bookings")
    ]


def test_text_of_a_camt_statement_beside_its_entries_has_a_receipt(tmp_path: Path) -> None:
    text = CAMT.format(version="08", booked="BOOK", pending="BOOK", name="<Nm>Shop</Nm>")
    note = "<AddtlStmtInf>Interest rises\nin May</AddtlStmtInf></Stmt>"
    run(put(tmp_path / "a.xml", text.replace("</Stmt>", note)))

    noted = [(row.code, row.detail) for row in ImportReceipt.unscoped.all()]
    assert ("partly_imported", "text of the statement: Interest rises in May") in noted


BALANCE = (
    '<Bal><Tp><CdOrPrtry><Cd>{}</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">{}</Amt>{}'
    "<Dt><Dt>2026-01-31</Dt></Dt></Bal>"
)
CREDIT = "<CdtDbtInd>CRDT</CdtDbtInd>"


@pytest.mark.parametrize(
    ("balances", "balance"),
    [
        ((("ITBD", "7.00", CREDIT),), 7),
        ((("ITBD", "7.00", CREDIT), ("CLAV", "6.00", CREDIT), ("CLBD", "5.00", CREDIT)), 5),
        ((("OPBD", "7.00", CREDIT),), None),
    ],
)
def test_balance_of_a_camt_account_is_the_last_one(
    tmp_path: Path, balances: tuple[tuple[str, ...], ...], balance: float | None
) -> None:
    text = CAMT.format(version="08", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    start, end = text.index("<Bal>"), text.index("</Bal>") + len("</Bal>")
    found = "".join(BALANCE.format(*each) for each in balances)
    run(put(tmp_path / "a.xml", text[:start] + found + text[end:]))

    assert one("accounts")["balance"] == balance


def test_balance_of_camt_without_its_direction_has_a_receipt(tmp_path: Path) -> None:
    text = CAMT.format(version="08", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    run(put(tmp_path / "a.xml", text.replace(f"87.50</Amt>{CREDIT}", "87.50</Amt>")))

    assert one("accounts")["balance"] is None
    noted = [(row.code, row.detail) for row in ImportReceipt.unscoped.all()]
    assert ("bad_amount", "balance 87.50") in noted


def test_time_of_a_camt_entry_is_kept(tmp_path: Path) -> None:
    text = CAMT.format(version="08", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    run(put(tmp_path / "a.xml", text))

    row = one("transactions", date="2026-01-14")
    assert row["details"] == "BookgDt DtTm: 2026-01-14T10:00:00+01:00"


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


def mt940_file(path: Path, *entries: str, account: str = "20050550/532013000", currency: str = "EUR",
               charset: str = "utf-8") -> Path:  # fmt: skip
    text = "\n".join((f":20:S\n:25:{account}\n:60F:C260101{currency}10,00", *entries))
    return put(path, f"{text}\n:62F:C260131{currency}20,00\n-\n", charset)


@pytest.mark.parametrize("charset", ["utf-8", "cp1252", "cp850"])
def test_mt940_is_read_in_its_charset(tmp_path: Path, charset: str) -> None:
    text = ":61:2601130113D1,00N001NONREF\n:86:106?00ÜBERWEISUNG?20Größe?32Jürgen Müßig"

    run(mt940_file(tmp_path / "a.sta", text, charset=charset))

    row = one("transactions", counterparty="Jürgen Müßig")
    assert (row["kind"], row["memo"]) == ("ÜBERWEISUNG", "Größe")


@pytest.mark.parametrize("charset", ["cp1250", "iso8859-2"])
@pytest.mark.parametrize("name", ["URZĄD ŚWINOUJŚCIE", "Urząd", "ŁÓDŹ GÓRNA"])
def test_mt940_of_central_europe_is_read_in_its_charset(
    tmp_path: Path, charset: str, name: str
) -> None:
    text = f":61:2601130113D1,00N001NONREF\n:86:106?00KARTE?20Buch?32{name}"

    run(mt940_file(tmp_path / "a.sta", text, charset=charset))

    assert one("transactions")["counterparty"] == name


@pytest.mark.parametrize("name", ["ZAPŁATA GDAŃSK", "Zapłata Kraków", "KINESKOPÓW"])
def test_mt940_of_poland_in_the_charset_of_dos_is_read(tmp_path: Path, name: str) -> None:
    text = f":61:2601130113D1,00N001NONREF\n:86:106?00KARTE?20Buch?32{name}"
    run(mt940_file(tmp_path / "a.sta", text, charset="cp852", currency="PLN"))

    assert one("transactions")["counterparty"] == name


def test_every_field_of_an_mt940_booking_is_kept(tmp_path: Path) -> None:
    run(mt940_file(
        tmp_path / "a.sta",
        ":61:2512310102D1,00N001OWNREF//BANKREF\nEXTRA\n:86:106?00KARTE?100399?20Ein Wort?21"
        + "x" * 27 + "?22y\n?30COBADEFF?31532013000?32REWE?33MARKT?34011\n:NS:15Text der Bank",
    ))  # fmt: skip

    (row,) = records("transactions")
    assert (row["date"], row["counterparty"]) == ("2026-01-02", "REWE MARKT")
    assert row["counterparty_account"] == "532013000"
    assert row["memo"] == f"Ein Wort {'x' * 27}y"
    assert row["reference"] == "BANKREF"
    assert set(row["details"].splitlines()) == {
        "?10: 0399", "?30: COBADEFF", "?34: 011", "NS 15: Text der Bank", "Reference: OWNREF",
        "Details: EXTRA", "Type: N001", "Code: 106", "Value date: 2025-12-31",
    }  # fmt: skip


def test_words_of_mt940_are_joined_across_its_fields(tmp_path: Path) -> None:
    entry = (
        ":61:2601130113D1,00NMSCNONREF\n:86:105?20CRED+DE89370400440532013000?21SVWZ+Invoice 4711"
        "?32Finanzamt Muenchen Abteilun?33g Erhebung"
    )
    run(mt940_file(tmp_path / "a.sta", entry))

    row = one("transactions", counterparty="Finanzamt Muenchen Abteilung Erhebung")
    assert row["memo"] == "CRED+DE89370400440532013000 SVWZ+Invoice 4711"


@pytest.mark.parametrize(
    ("account", "currency", "name"),
    [
        ("20050550/532013000", "EUR", "Account …3000"),
        ("UBRTHUHB/123456789150/HUF", "HUF", "Account …9150"),
        ("1291.99.348EUR", "EUR", "Account …9348"),
        ("25106000760000888888888888", "PLN", "Account …8888"),
    ],
)
def test_account_of_mt940_is_a_number(
    tmp_path: Path, account: str, currency: str, name: str
) -> None:
    entry = ":61:2601130113D1,00N001NONREF\n:86:a"
    run(mt940_file(tmp_path / "a.sta", entry, account=account, currency=currency))

    assert account_names() == {name: currency}


@pytest.mark.parametrize(
    ("entry", "amount", "other"),
    [
        (":61:2601130113D65,00NOVBNL47INGB9999999999\nhr Paulissen\n"
         ":86:NL47INGB9999999999 hr Paulissen\n\nBetaling", -65, "hr Paulissen"),  # ASN
        (":61:260113    DD212,39NMSCNONREF//\n/ABC/MISC\n:86:/PT/FT", -212.39, None),  # Citi
        (":61:2601130113C5,00NTRFEREF//B\n:86:/CNTP/NL20INGB0001234567/INGBNL2A/Bakker///REMI/x/",
         5, "Bakker"),
    ],
    ids=["ASN", "Citi", "ING"],
)  # fmt: skip
def test_mt940_of_more_banks(tmp_path: Path, entry: str, amount: float, other: str | None) -> None:
    run(mt940_file(tmp_path / "a.sta", entry, currency="USD"))

    (row,) = records("transactions")
    assert (row["amount"], row["counterparty"]) == (amount, other)


def test_ofx_file_without_a_statement_makes_no_account(tmp_path: Path) -> None:
    status = "<STATUS><CODE>2000<SEVERITY>ERROR<MESSAGE>General error</STATUS>"
    run(put(tmp_path / "error.ofx", document(f"<STMTTRNRS><TRNUID>1{status}</STMTTRNRS>")))

    assert records("accounts") == []
    assert [(row.code, row.detail) for row in ImportReceipt.unscoped.all()] == [
        ("empty", "General error")
    ]


def test_accounts_of_ofx_that_differ_in_their_kind_are_two(tmp_path: Path) -> None:
    checking, savings = (
        ofx(booking(amount, fitid=fitid), account="99999").replace(
            "</BANKACCTFROM>", f"<ACCTTYPE>{kind}</BANKACCTFROM>"
        )
        for amount, fitid, kind in (
            ("-42.00", "2026010500017", "CHECKING"), ("-9.00", "2026010500018", "SAVINGS"),
        )
    )  # fmt: skip
    run(put(tmp_path / "a.ofx", document(checking, savings)))
    run(put(tmp_path / "b.ofx", document(savings)))

    assert sorted(row["kind"] for row in records("accounts")) == ["checking", "savings"]
    assert len({row["account_id"] for row in records("transactions")}) == 2


@pytest.mark.parametrize(
    ("written", "balance", "codes"),
    [
        ("348,29", 348.29, []),
        ("R$ 5.326,43", 5326.43, []),
        ("2607.1664944585727", None, ["bad_amount"]),
    ],
)
def test_balance_of_ofx_is_read_or_has_a_receipt(
    tmp_path: Path, written: str, balance: float | None, codes: list[str]
) -> None:
    found = f"<LEDGERBAL><BALAMT>{written}<DTASOF>20260131</LEDGERBAL></STMTRS>"
    text = document(ofx(booking("-42,00"), currency="BRL").replace("</STMTRS>", found))
    run(put(tmp_path / "a.ofx", text))

    assert one("accounts")["balance"] == balance
    assert [row.code for row in ImportReceipt.unscoped.all()] == codes


def test_transfers_and_positions_of_ofx_have_receipts(tmp_path: Path) -> None:
    other = (
        "<INTRATRNRS><INTRARS><CURDEF>EUR</INTRARS></INTRATRNRS><INVPOSLIST><POSSTOCK></INVPOSLIST>"
    )
    run(put(tmp_path / "a.ofx", document(ofx(booking("-42.00")), other)))

    assert len(bookings()) == 1
    assert {(row.code, row.detail) for row in ImportReceipt.unscoped.all()} == {
        ("not_supported", "INTRATRNRS: 1"), ("not_supported", "INVPOSLIST: 1"),
    }  # fmt: skip


def test_currency_of_ofx_is_a_code(tmp_path: Path) -> None:
    run(put(tmp_path / "a.ofx", document(ofx(booking("-42.00")).replace("EUR", "eur"))))

    assert {row["currency"] for row in records("transactions")} == {"EUR"}
    assert set(account_names().values()) == {"EUR"}


def test_comment_of_ofx_is_no_booking(tmp_path: Path) -> None:
    hidden = "<!-- <STMTTRN>" + booking("-90.00", fitid="2026010500018") + "</STMTTRN> -->"
    text = document(ofx(booking("-42.00"))).replace("</BANKTRANLIST>", f"{hidden}</BANKTRANLIST>")
    run(put(tmp_path / "a.ofx", text))

    assert [amount for _, amount, _ in bookings()] == [Decimal("-42.0")]


def test_booking_of_ofx_without_elements_has_a_receipt(tmp_path: Path) -> None:
    run(put(tmp_path / "a.ofx", document(ofx(booking("-42.00"), "*snipped*"))))

    assert len(bookings()) == 1
    assert [(row.code, row.detail) for row in ImportReceipt.unscoped.all()] == [
        ("bad_amount", "no amount")
    ]


def test_ofx_that_wrongly_says_utf_16_is_read(tmp_path: Path) -> None:
    text = document(ofx(booking("-42.00", more="<NAME>Café")))
    run(put(tmp_path / "a.ofx", f'<?xml version="1.0" encoding="utf-16"?>{text}'))

    assert one("transactions")["counterparty"] == "Café"


def test_each_line_of_mt940_that_repeats_its_tag_is_kept(tmp_path: Path) -> None:
    entry = ":61:2601130113D1,00N001NONREF\n:86:Terugboeking\n:86:Kosten juni\n:86:Kenmerk 4711"
    run(mt940_file(tmp_path / "a.sta", entry))

    assert one("transactions")["memo"] == "Terugboeking Kosten juni Kenmerk 4711"


def test_text_of_mt940_may_have_the_sign_before_fields(tmp_path: Path) -> None:
    entry = ":61:2601130113D1,00N001NONREF\n:86:171?00LASTSCHRIFT?20EREF+A4?2B53 what? yes?32Shop"
    run(mt940_file(tmp_path / "a.sta", entry))

    row = one("transactions", counterparty="Shop")
    assert row["memo"] == "EREF+A4?2B53 what? yes"


def test_code_of_four_digits_of_mt940_is_a_code(tmp_path: Path) -> None:
    entry = ":61:2601130113D1,00N001NONREF\n:86:8300<00FEES<10 <20Opłata za przelew<32Bank<33"
    run(mt940_file(tmp_path / "a.sta", entry, currency="PLN"))

    row = one("transactions", counterparty="Bank")
    assert (row["kind"], row["memo"]) == ("FEES", "Opłata za przelew")
    assert row["details"] == "Code: 8300\nType: N001"


def test_number_at_the_start_of_a_text_of_mt940_is_no_code(tmp_path: Path) -> None:
    run(
        mt940_file(tmp_path / "a.sta", ":61:2601130113D1,00N001NONREF\n:86:717.76.000.09 BTW F 611")
    )

    row = one("transactions")
    assert (row["memo"], row["kind"]) == ("717.76.000.09 BTW F 611", None)


@pytest.mark.parametrize("end", ["\n-}", "\n-", "\n", ""])
def test_text_behind_the_last_balance_of_mt940_belongs_to_the_statement(
    tmp_path: Path, end: str
) -> None:
    text = (
        ":20:S\n:25:NL69INGB0123456789EUR\n:60F:C260101EUR10,00\n:61:2601130113D1,00N001NONREF\n"
        ":86:a\n:62F:C260131EUR9,00\n:64:C260131EUR9,00\n:65:C260201EUR9,00\n"
        f":86:/SUM/1/0/1,00/0,00/;\nof <all> bookings{end}"
    )
    run(put(tmp_path / "a.sta", text))

    assert len(bookings()) == 1
    assert receipts() == set()


def test_other_text_behind_the_last_balance_of_mt940_has_a_receipt(tmp_path: Path) -> None:
    text = (
        ":20:S\n:25:NL69INGB0123456789EUR\n:60F:C260101EUR10,00\n:61:2601130113D1,00N001NONREF\n"
        ":86:a\n:62F:C260131EUR9,00\n:86:D000001C000000D1,00C0,00\n:86:Interest rises in May\n-\n"
    )
    run(put(tmp_path / "a.sta", text))

    assert len(bookings()) == 1
    (receipt,) = ImportReceipt.unscoped.all()
    assert (receipt.code, receipt.place) == ("partly_imported", "line 8")
    assert receipt.detail == "text of the statement: Interest rises in May"


@pytest.mark.parametrize(
    ("header", "ending", "place", "text"),
    [
        ("", ":62M:C260131EUR9,00\n:86:Interest rises", "line 7", "Interest rises"),
        ("", ":62F:C260131EUR9,00\nInterest rises\nin May\n-", "line 7", "Interest rises in May"),
        ("", ":64:C260131EUR9,00\n:86:Call us\n:86:soon\n-}", "line 7", "Call us | soon"),
        ("\n:86:Your IBAN\n:86:is new", ":62F:C260131EUR9,00", "line 4", "Your IBAN | is new"),
        ("\n:NS:22Ada Jansen\n23Giro", ":62F:C260131EUR9,00", "line 4", "22Ada Jansen 23Giro"),
        ("\nYour IBAN is new", ":62F:C260131EUR9,00", "line 4", "Your IBAN is new"),
        ("\n:86:Hello", ":62F:C260131EUR9,00\n-}${1:F01A}{2:I940}{4:", "line 4", "Hello"),
    ],
)
def test_every_text_of_mt940_beside_its_bookings_has_a_receipt(
    tmp_path: Path, header: str, ending: str, place: str, text: str
) -> None:
    statement = (
        f":20:S\n:25:NL69INGB0123456789EUR\n:60F:C260101EUR10,00{header}\n"
        f":61:2601130113D1,00N001NONREF\n:86:a\n{ending}\n"
    )
    run(put(tmp_path / "a.sta", statement))

    assert one("transactions")["memo"] == "a"
    (receipt,) = ImportReceipt.unscoped.all()
    assert (receipt.code, receipt.place) == ("partly_imported", place)
    assert receipt.detail == f"text of the statement: {text}"


def test_line_with_a_hyphen_alone_belongs_to_the_text_of_mt940(tmp_path: Path) -> None:
    run(mt940_file(tmp_path / "a.sta", ":61:2601130113D1,00N001NONREF\n:86:Rent\n-\nMay"))

    assert one("transactions")["memo"] == "Rent - May"


def test_mt940_with_a_decimal_point_is_read(tmp_path: Path) -> None:
    path = mt940_file(tmp_path / "a.sta", ":61:2601130113DR52.58NTRFITM1\n:86:a", currency="GBP")
    path.write_text(path.read_text().replace("20,00", "1020.55"))
    run(path)

    row = one("transactions")
    assert (row["amount"], row["details"]) == (-52.58, "Type: NTRF")
    assert one("accounts")["balance"] == 1020.55


def test_statement_of_mt940_behind_a_control_character_has_its_account(tmp_path: Path) -> None:
    entry = ":61:2601130113D1,00N001NONREF\n:86:a"
    first = mt940_file(tmp_path / "a.sta", entry).read_text()
    second = mt940_file(tmp_path / "b.sta", entry, account="25106000760000888888888888").read_text()
    run(put(tmp_path / "both" / "a.sta", f"{first}\x1a{second}"))

    assert len({row["account_id"] for row in records("transactions")}) == 2


def test_every_text_of_a_camt_batch_is_kept(tmp_path: Path) -> None:
    parts = "".join(
        f"<TxDtls><Refs><EndToEndId>E{n}</EndToEndId></Refs><Amt Ccy='EUR'>{n}.50</Amt><RltdPties><Cdtr>"
        f"<Nm>{name}</Nm></Cdtr><UltmtCdtr><Nm>Heirs</Nm></UltmtCdtr></RltdPties></TxDtls>"
        for n, name in ((4, "Ada"), (8, "Bob"))
    )
    text = CAMT.format(version="02", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    text = text.replace("</TxDtls>", f"</TxDtls>{parts}", 1)
    run(put(tmp_path / "a.xml", text.replace("<NtryDtls>", "<NtryRef>N1</NtryRef><NtryDtls>", 1)))

    row = one("transactions", amount=-12.5)
    assert {"NtryRef: N1", "Cdtr Nm: Ada", "Cdtr Nm: Bob", "Amt: 4.50 EUR", "Amt: 8.50 EUR",
            "EndToEndId: E4", "UltmtCdtr Nm: Heirs"} <= set(row["details"].splitlines())  # fmt: skip
    assert (row["counterparty"], row["memo"]) == (None, "Kauf")


def test_codes_of_a_camt_entry_that_its_owner_looks_for_are_kept(tmp_path: Path) -> None:
    codes = "<Purp><Cd>SALA</Cd></Purp><RtrInf><Rsn><Cd>AC04</Cd></Rsn></RtrInf></TxDtls>"
    text = CAMT.format(version="02", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    run(put(tmp_path / "a.xml", text.replace("</TxDtls>", codes, 1)))

    details = one("transactions", counterparty="Shop")["details"].splitlines()
    assert {"Purp Cd: SALA", "RtrInf Rsn Cd: AC04"} <= set(details)


@pytest.mark.parametrize(
    ("proprietary", "kind", "details"),
    [
        ("", "PMNT-RCDT-ESCT", []),
        ("<Prtry><Cd>NTRF+166</Cd></Prtry>", "NTRF+166", ["BkTxCd: PMNT-RCDT-ESCT"]),
    ],
)
@pytest.mark.parametrize("within", ["<NtryDtls>", "<RltdPties>"])
def test_the_three_codes_of_a_camt_entry_are_kept(
    tmp_path: Path, within: str, proprietary: str, kind: str, details: list[str]
) -> None:
    codes = (
        "<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>RCDT</Cd><SubFmlyCd>ESCT</SubFmlyCd></Fmly></Domn>"
        f"{proprietary}</BkTxCd>"
    )
    text = CAMT.format(version="02", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    run(put(tmp_path / "a.xml", text.replace(within, f"{codes}{within}", 1)))

    row = one("transactions", counterparty="Shop")
    assert row["kind"] == kind
    assert [line for line in (row["details"] or "").splitlines() if "BkTxCd" in line] == details


def test_codes_of_each_transaction_of_a_camt_batch_are_kept(tmp_path: Path) -> None:
    parts = "".join(
        f"<TxDtls><BkTxCd><Prtry><Cd>{code}</Cd></Prtry></BkTxCd></TxDtls>" for code in ("X1", "X2")
    )
    text = CAMT.format(version="02", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    run(put(tmp_path / "a.xml", text.replace("</TxDtls>", f"</TxDtls>{parts}", 1)))

    row = one("transactions", counterparty="Shop")
    assert (row["kind"], row["details"]) == ("X1", "BkTxCd: X2")


def test_long_texts_of_a_camt_batch_are_cut_with_a_receipt(tmp_path: Path) -> None:
    names = "".join(
        f"<TxDtls><RltdPties><Cdtr><Nm>{n:0200}</Nm></Cdtr></RltdPties></TxDtls>"
        for n in range(120)
    )
    text = CAMT.format(version="02", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    run(put(tmp_path / "a.xml", text.replace("</TxDtls>", f"</TxDtls>{names}", 1)))

    assert {code for code, _ in receipts()} == {"not_booked", "text_cut"}


def test_long_memo_is_whole(tmp_path: Path) -> None:
    text = CAMT.format(version="02", booked="BOOK", pending="PDNG", name="<Nm>Shop</Nm>")
    run(put(tmp_path / "a.xml", text.replace("Kauf", "Kauf " * 500)))

    assert one("transactions", amount=-12.5)["memo"].count("Kauf") == 500


def test_splits_and_address_of_qif_are_kept(tmp_path: Path) -> None:
    text = (
        "!Type:Bank\nD2026-01-13\nT-1,000.00\nCX\nPBank\nMRate\nLHouse\nAP.O. Box 1\nAOslo\n"
        "SInterest\nEJanuary\n$-253.64\nS[Loan]\n$-746.36\n^\n"
    )
    run(put(tmp_path / "a.qif", text))

    row = one("transactions", category="House")
    assert row["details"].splitlines() == [
        "Cleared: X", "Address: P.O. Box 1", "Address: Oslo", "Split: Interest",
        "Split memo: January", "Split amount: -253.64", "Split: [Loan]", "Split amount: -746.36",
    ]  # fmt: skip


def test_other_lists_of_qif_have_a_receipt_each(tmp_path: Path) -> None:
    text = (
        "!Type:Cat\nNHome\nE\n^\nNPay\nI\n^\n!Type:Class\nNTrip\n^\n!Type:Memorized\nKP\nPRent\n^\n"
        '!TYPE:PRICES\n"ACME",1.50,"1/ 2\'26"\n^\n!Type:Tag\nNTax\n^\n!Account\nNSavings\n^\n'
        "!Type:Invst\nD2026-01-13\nNBuy\n^\n!Type:Bank\nD2026-01-13\nT-1.00\nPBank\n^\n"
    )
    run(put(tmp_path / "a.qif", text))

    assert one("transactions", counterparty="Bank")["amount"] == -1
    noted = [(row.code, row.detail) for row in ImportReceipt.unscoped.order_by("pk")]
    lists = ("Cat: 2", "Class: 1", "Memorized: 1", "PRICES: 1", "Tag: 1", "Invst: 1")
    assert noted == [("not_supported", each) for each in lists]


def test_other_elements_of_an_ofx_booking_are_kept(tmp_path: Path) -> None:
    more = "<DTUSER>20260104<SIC>5942<REFNUM>99<NAME>Bookshop<PAYEE><NAME>Ada Books Ltd<CITY>Oslo</PAYEE>"
    run(put(tmp_path / "a.ofx", document(ofx(booking("-42.00", more=more)))))

    row = one("transactions", counterparty="Bookshop")
    assert set(row["details"].splitlines()) == {
        "DTUSER: 20260104", "SIC: 5942", "PAYEE NAME: Ada Books Ltd", "PAYEE CITY: Oslo",
        "FITID: 2026010500017",
    }  # fmt: skip
