"""OFX, camt.053 and MT940 as banks write them: corrections, several statements, batches."""

from pathlib import Path

import pytest

from tests.importers.bank import bookings, put
from tests.importers.imports import one, receipts, run
from tests.importers.test_bank_formats import booking, document, ofx

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def amounts() -> list[str]:
    return sorted(str(amount) for _, amount, _ in bookings())


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (("<NAME>Bookshop", "<NAME><![CDATA[Books & Co]]></NAME>"), "Books & Co"),
        (("<NAME>Bookshop", "<NAME>\nBookshop\n"), "Bookshop"),
        (("<STMTTRN>", "<STMTTRN >"), "Bookshop"),
        (("<NAME>Bookshop", "<ofx:NAME>Bookshop</ofx:NAME>"), "Bookshop"),
    ],
)
def test_elements_are_found_in_every_form(
    tmp_path: Path, change: tuple[str, str], name: str
) -> None:
    text = document(ofx(booking("-42.00", more="<NAME>Bookshop")))
    run(put(tmp_path / "a.ofx", text.replace(*change)))

    assert one("transactions")["counterparty"] == name


@pytest.mark.parametrize(
    ("action", "amount", "expected"), [("REPLACE", "-40.00", ["-40.0"]), ("DELETE", "-42.00", [])]
)
def test_corrected_booking_does_not_count(
    tmp_path: Path, action: str, amount: str, expected: list[str]
) -> None:
    more = f"<CORRECTFITID>2026010500017<CORRECTACTION>{action}"
    rows = (booking("-42.00"), booking(amount, fitid="2026010600001", more=more))
    run(put(tmp_path / "a.ofx", document(ofx(*rows))))

    assert amounts() == expected
    assert {code for code, _ in receipts()} == {"not_booked"}


BALANCE = "<LEDGERBAL><BALAMT>{}<DTASOF>{}</LEDGERBAL></STMTRS>"
OFX = [
    ofx(booking("-1.00")).replace("</STMTRS>", BALANCE.format(amount, day))
    for amount, day in (("90.00", "20260131"), ("80.00", "20260228"))
]
SWIFT = [
    f":20:S\n:25:37040044/532013000\n:60F:C260101EUR99,00\n:62F:C{day}EUR{amount}\n-\n"
    for amount, day in (("90,00", "260131"), ("80,00", "260228"))
]
STATEMENTS = [
    "<Stmt><Acct><Id><IBAN>DE89370400440532013000</IBAN></Id></Acct><Bal><Tp><CdOrPrtry><Cd>CLBD</Cd>"
    f'</CdOrPrtry></Tp><Amt Ccy="EUR">{amount}</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>{day}</Dt></Dt>'
    "</Bal></Stmt>"
    for amount, day in (("90.00", "2026-01-31"), ("80.00", "2026-02-28"))
]


def camt(content: str) -> str:
    return f"<Document><BkToCstmrStmt>{content}</BkToCstmrStmt></Document>"


@pytest.mark.parametrize("is_newest_first", [False, True])
@pytest.mark.parametrize("form", ["ofx", "sta", "xml"])
def test_account_has_its_newest_balance(tmp_path: Path, form: str, is_newest_first: bool) -> None:
    parts = {"ofx": OFX, "sta": SWIFT, "xml": STATEMENTS}[form][:: -1 if is_newest_first else 1]
    wrap = {"ofx": document, "sta": str, "xml": camt}[form]
    run(put(tmp_path / f"a.{form}", wrap("".join(parts))))

    account = one("accounts")
    assert (account["balance"], account["balance_on"]) == (80, "2026-02-28")


def test_batch_has_no_single_other_side(tmp_path: Path) -> None:
    details = "".join(
        f"<TxDtls><RltdPties><Dbtr><Nm>{name}</Nm></Dbtr></RltdPties></TxDtls>" for name in "AB"
    )
    entry = (
        '<Ntry><Amt Ccy="EUR">30.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><Dt>'
        f"2026-01-13</Dt></BookgDt><NtryDtls>{details}</NtryDtls></Ntry></Stmt>"
    )
    run(put(tmp_path / "a.xml", camt(STATEMENTS[0].replace("</Stmt>", entry))))

    assert one("transactions")["counterparty"] is None


@pytest.mark.parametrize(
    ("written", "signs", "expected", "codes"),
    [
        (("DEBIT", "1.50"), None, "-1.5", {"unsure_sign"}),
        (("DEBIT", "+1.50"), None, "1.5", {"unsure_sign"}),
        (("POS", "1.50"), None, "-1.5", {"unsure_sign"}),
        (("CREDIT", "1.50"), None, "1.5", set()),
        (("DEBIT", "0.00"), None, "0.0", set()),
        (("DEBIT", "-1.50"), None, "-1.5", set()),
        (("DEBIT", "1.50"), "as-written", "1.5", set()),
        (("DEBIT", "+1.50"), "inverted", "-1.5", set()),
        (("DEBIT", "-1.50"), "inverted", "-1.5", set()),
    ],
)
def test_sign_from_the_kind_of_an_ofx_booking_has_a_receipt(
    tmp_path: Path, written: tuple[str, str], signs: str | None, expected: str, codes: set[str]
) -> None:
    kind, amount = written
    booking = f"<TRNTYPE>{kind}<DTPOSTED>20260105<TRNAMT>{amount}<FITID>2026010500017"
    path = put(tmp_path / "a.ofx", document(ofx(booking)))

    run(path, signs=signs)

    assert (amounts(), {code for code, _ in receipts()}) == ([expected], codes)
    run(path)
    assert amounts() == [expected], "the answer is not remembered"
