"""Bank statements in OFX and QIF, and the amounts of all formats."""

import pytest

from tests.importers.imports import TORTURE, latest, one, receipts, records, run

pytestmark = pytest.mark.django_db


def test_sgml_ofx_is_imported() -> None:
    run(TORTURE / "bank.ofx")

    plumber = one("transactions", counterparty="Müller & Sohn")
    assert (plumber["date"], plumber["amount"], plumber["currency"]) == ("2026-01-05", -90.5, "EUR")
    account = one("accounts", bank="Elbe Bank")
    assert plumber["account_id"] == account["id"]
    assert (account["balance"], account["balance_on"]) == (5009.5, "2026-01-31")
    # The bank used the same id for two transactions.
    assert len([record for record in records("transactions") if record["reference"] == "1"]) == 2
    assert receipts() == {("bad_date", "line 13"), ("bad_amount", "line 14")}


def test_qif_keeps_equal_transactions_of_one_day() -> None:
    run(TORTURE / "bank.qif")

    assert [record["counterparty"] for record in records("transactions")].count("Café") == 2
    rent = one("transactions", counterparty="Landlord")
    assert (rent["date"], rent["amount"], rent["category"]) == ("2026-01-13", -1234.56, "Home:Rent")
    assert one("accounts", id=rent["account_id"])["name"] == "Savings"
    categories = ("not_supported", "bank.qif")
    assert receipts() == {("bad_date", "line 20"), ("bad_amount", "line 24"), categories}
    run(TORTURE / "bank.qif")
    assert latest().created == 0
