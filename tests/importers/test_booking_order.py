"""Bookings are counted once whatever the order of the rows in the next export."""

from pathlib import Path

import pytest

from tests.importers.bank import bookings, put
from tests.importers.imports import receipts, run
from tests.importers.test_bank_formats import booking, document, ofx
from tests.importers.test_statement_forms import camt

pytestmark = pytest.mark.django_db


def entry(amount: str, *, reference: str, position: int, status: str = "BOOK") -> str:
    return (
        f"<Ntry><NtryRef>{position}</NtryRef><Amt Ccy='EUR'>{amount}</Amt><CdtDbtInd>DBIT</CdtDbtInd>"
        f"<Sts>{status}</Sts><BookgDt><Dt>2026-01-13</Dt></BookgDt><AcctSvcrRef>{reference}</AcctSvcrRef>"
        "</Ntry>"
    )


def statement(*entries: str, more: str = "") -> str:
    account = "<Acct><Id><IBAN>DE89370400440532013000</IBAN></Id></Acct>"
    return f"<Stmt>{more}{account}{''.join(entries)}</Stmt>"


def sums() -> list[tuple[str, str]]:
    return sorted((day, str(amount)) for day, amount, _ in bookings())


def test_ofx_booking_whose_day_the_bank_corrects_is_one(tmp_path: Path) -> None:
    run(put(tmp_path / "a.ofx", document(ofx(booking("-42.00")))))
    run(put(tmp_path / "b.ofx", document(ofx(booking("-42.00", day="20260107")))))

    assert sums() == [("2026-01-07", "-42.0")]


def test_ofx_statements_that_overlap_count_a_booking_once(tmp_path: Path) -> None:
    row = "<TRNTYPE>DEBIT<DTPOSTED>20260105<TRNAMT>-1.00<NAME>A\n"

    run(put(tmp_path / "a.ofx", document(ofx(row, row), ofx(row))))

    assert sums() == [("2026-01-05", "-1.0")] * 2


def test_camt_entry_that_was_pending_counts_once(tmp_path: Path) -> None:
    rows = [
        entry("1.00", reference="R", position=number, status=status)
        for number, status in enumerate(("PDNG", "BOOK"))
    ]
    run(put(tmp_path / "a.xml", camt(statement(*rows))))
    run(put(tmp_path / "b.xml", camt(statement(rows[1]))))

    assert sums() == [("2026-01-13", "-1.0")]
    assert receipts() == {("not_booked", "entry 1")}


@pytest.mark.parametrize(("page", "count"), [("", 1), ("<StmtPgntn><PgNb>2</PgNb></StmtPgntn>", 2)])
def test_camt_statements_that_overlap_and_pages(tmp_path: Path, page: str, count: int) -> None:
    row = entry("1.00", reference="R", position=1)

    run(put(tmp_path / "a.xml", camt(statement(row) + statement(row, more=page))))

    assert sums() == [("2026-01-13", "-1.0")] * count
