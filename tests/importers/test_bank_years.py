"""A year of bookings in each format of banks is imported unchanged."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import pytest

from tests.importers.imports import latest, receipts, records, run
from tests.importers.test_demo_year import demo_records

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


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


def qif(bookings: list[Booking]) -> str:
    entries = "".join(
        f"D{each.on:%m/%d/%Y}\nT{each.amount:,.2f}\nP{each.name}\nM{each.memo}\n^\n"
        for each in bookings
    )
    return f"!Account\nNGiro\nTBank\n^\n!Type:Bank\n{entries}"


LAYOUTS: dict[str, Callable[[list[Booking]], str]] = {
    "year.xml": camt, "year.sta": swift, "year.qif": qif,
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
