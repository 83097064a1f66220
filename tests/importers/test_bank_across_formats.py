"""One account in files of several formats has each booking once."""

from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from evidence.models.records import Record
from evidence.write.record_erasure import delete_record
from tests.importers.bank import bookings, put
from tests.importers.imports import latest, receipts, records, run
from tests.importers.test_bank_formats import booking, document, ofx
from tests.world import NOW

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

IBAN = "DE89370400440532013000"
AMOUNTS = [Decimal("-42.0"), Decimal("-9.99"), Decimal("-9.99"), Decimal("2000.0")]


def csv(*rows: str, account: str = IBAN) -> str:
    above = f"Kontonummer:;{account}\n\n" if account else ""
    header = "Buchungstag;Empfänger;Betrag (EUR)\n"
    return above + header + "".join(f"{row}\n" for row in rows)


CSV = csv("05.01.2026;Shop;-42,00", "06.01.2026;Kiosk;-9,99", "06.01.2026;Kiosk;-9,99",
          "31.01.2026;ACME;2.000,00")  # fmt: skip
OFX_BOOKINGS = [
    booking("-42.00", fitid="2026010500001"),
    booking("-9.99", fitid="2026010600001", day="20260106"),
    booking("-9.99", fitid="2026010600002", day="20260106"),
    booking("2000.00", fitid="2026013100001", day="20260131"),
]
MT940 = (
    ":20:X\n:25:37040044/532013000EUR\n:28C:1/1\n:60F:C260101EUR0,00\n"
    ":61:2601050105D42,00N001NONREF\n:86:Shop\n:61:2601060106D9,99N001NONREF\n:86:Kiosk\n"
    ":61:2601060106D9,99N001NONREF\n:86:Kiosk\n:61:2601310131C2000,00N001NONREF\n:86:ACME\n"
    ":62F:C260131EUR1938,02\n-\n"
)


def camt_entry(amount: str, direction: str, day: str) -> str:
    return (
        f'<Ntry><Amt Ccy="EUR">{amount}</Amt><CdtDbtInd>{direction}</CdtDbtInd><Sts>BOOK</Sts>'
        f"<BookgDt><Dt>{day}</Dt></BookgDt></Ntry>"
    )


CAMT = (
    f"<Document><BkToCstmrStmt><Stmt><Acct><Id><IBAN>{IBAN}</IBAN></Id></Acct>"
    + camt_entry("42.00", "DBIT", "2026-01-05") + camt_entry("9.99", "DBIT", "2026-01-06") * 2
    + camt_entry("2000.00", "CRDT", "2026-01-31") + "</Stmt></BkToCstmrStmt></Document>"
)  # fmt: skip


def write(folder: Path, name: str) -> Path:
    """Write the same four bookings in one of the formats."""
    texts = {
        "giro.csv": CSV,
        "bare.ofx": document(ofx(*OFX_BOOKINGS, account="532013000", bank="37040044")),
        "iban.ofx": document(ofx(*OFX_BOOKINGS, account=IBAN, bank="37040044")),
        "giro.sta": MT940,
        "iban.sta": MT940.replace("532013000EUR", IBAN),
        "giro.xml": CAMT,
    }
    return put(folder / name, texts[name])


FORMATS = ["giro.csv", "bare.ofx", "iban.ofx", "giro.sta", "iban.sta", "giro.xml"]
PAIRS = list(pairwise([*FORMATS, FORMATS[0]]))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_bookings_of_one_account_are_stored_once(tmp_path: Path, first: str, second: str) -> None:
    run(write(tmp_path / "1", first))
    run(write(tmp_path / "2", second))

    assert sorted(amount for _, amount, _ in bookings()) == sorted(AMOUNTS)
    assert len(records("accounts")) == 1
    if Path(first).suffix != Path(second).suffix:
        assert "already_imported" in {code for code, _ in receipts()}
    for name in (first, second):
        run(tmp_path / ("1" if name == first else "2") / name)
        assert (latest().created, latest().updated) == (0, 0)


def test_newer_file_of_another_format_adds_its_new_bookings(tmp_path: Path) -> None:
    run(write(tmp_path, "iban.ofx"))
    newer = CSV + "31.01.2026;Kiosk;-9,99\n06.01.2026;Kiosk;-9,99\n03.02.2026;Shop;-42,00\n"

    run(put(tmp_path / "giro.csv", newer))

    assert sorted(amount for _, amount, _ in bookings()) == sorted(
        [*AMOUNTS, Decimal("-9.99"), Decimal("-9.99"), Decimal("-42.0")]
    )
    run(tmp_path / "giro.csv")
    assert (latest().created, latest().updated) == (0, 0)


def test_booking_with_another_day_has_a_receipt(tmp_path: Path) -> None:
    run(write(tmp_path, "iban.ofx"))

    run(put(tmp_path / "giro.csv", csv("07.01.2026;Shop;-42,00")))

    assert len(bookings()) == 5
    assert ("maybe_imported", "line 4") in receipts()


@pytest.mark.parametrize("first", ["giro.csv", "iban.ofx"])
def test_owner_is_asked_whether_a_named_account_is_a_numbered_one(
    tmp_path: Path, first: str
) -> None:
    named = put(tmp_path / "household.csv", csv(*CSV.splitlines()[3:], account=""))
    numbered = write(tmp_path, "iban.ofx")
    one, other = (named, numbered) if first == "giro.csv" else (numbered, named)
    run(one)

    with pytest.raises(CommandError, match="Not everything"):
        run(other)
    assert len(bookings()) == 4

    (stored,) = records("accounts")
    run(other, account=stored["name"])
    assert (len(bookings()), len(records("accounts"))) == (4, 1)
    run(other)
    assert (latest().created, latest().updated) == (0, 0)


def test_owner_can_say_that_the_account_is_another(tmp_path: Path) -> None:
    run(write(tmp_path, "iban.ofx"))
    path = put(tmp_path / "household.csv", csv(*CSV.splitlines()[3:], account=""))

    run(path, account="household")

    assert (len(bookings()), len(records("accounts"))) == (8, 2)
    run(path)
    assert (latest().created, latest().updated) == (0, 0)


def erase(amount: str, *, count: int = 1) -> None:
    rows = Record.unscoped.filter(stream="transactions", data__amount=float(amount))
    for row in rows.order_by("record_key")[:count]:
        delete_record(
            row.connection_id, stream=row.stream, record_key=row.record_key, suppress=True, now=NOW
        )


@pytest.mark.parametrize(("second", "first"), PAIRS)
def test_erased_booking_does_not_return_from_another_format(
    tmp_path: Path, first: str, second: str
) -> None:
    run(write(tmp_path / "1", first))
    erase("-42")
    erase("-9.99")

    run(write(tmp_path / "2", second))

    assert sorted(amount for _, amount, _ in bookings()) == [Decimal("-9.99"), Decimal("2000.0")]
    assert "erased" in {code for code, _ in receipts()}
    for folder, name in (("1", first), ("2", second), ("1", first)):
        run(tmp_path / folder / name)
        assert (latest().created, latest().updated) == (0, 0)


def test_new_equal_booking_of_the_same_format_is_imported(tmp_path: Path) -> None:
    run(write(tmp_path, "giro.csv"))
    erase("-42")

    run(put(tmp_path / "giro.csv", CSV + "05.01.2026;Shop;-42,00\n"))

    assert [amount for _, amount, _ in bookings()].count(Decimal("-42.0")) == 1


@pytest.mark.parametrize("is_first", [True, False])
def test_equal_amounts_of_one_day_with_other_texts_are_both_kept(
    tmp_path: Path, is_first: bool
) -> None:
    entry = booking("-42.00", fitid="2026010500001", more="<NAME>Baker Street Bakery<MEMO>Card")
    run(put(tmp_path / "a.ofx", document(ofx(entry, account=IBAN))))
    rows = ["05.01.2026;Tankstelle;-42,00", "05.01.2026;BAKER STREET;-42,00"]

    run(put(tmp_path / "giro.csv", csv(*(rows if is_first else rows[::-1]))))

    assert {code for code, _ in receipts()} == {"already_imported", "maybe_imported"}
    assert sorted(row["counterparty"] for row in records("transactions")) == [
        "Baker Street Bakery", "Tankstelle",
    ]  # fmt: skip
    run(tmp_path / "giro.csv")
    assert (latest().created, latest().updated) == (0, 0)
