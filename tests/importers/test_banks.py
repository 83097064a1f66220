"""Bank statements in OFX, QIF and CSV."""

from decimal import Decimal
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from importers.bank.amounts import parse_amount
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
    assert receipts() == {("bad_date", "line 20"), ("bad_amount", "line 24")}
    run(TORTURE / "bank.qif")
    assert latest().created == 0


def test_known_csv_columns_are_mapped_automatically() -> None:
    run(TORTURE / "bank.csv")

    plumber = one("transactions", counterparty="Müller & Sohn")
    assert (plumber["date"], plumber["amount"]) == ("2026-01-05", -90.5)
    assert plumber["memo"] == "Rohr; alt"
    assert one("transactions", memo="Gehalt")["amount"] == 4100
    assert receipts() == {("bad_date", "line 6"), ("bad_amount", "line 7")}


def test_unknown_csv_columns_must_be_chosen_once(tmp_path: Path) -> None:
    path = tmp_path / "statement.csv"
    path.write_text("Quando,Quanto,Chi\n2026-01-05,-10.00,Bar\n2026-01-06,20.00,Zia\n")

    with pytest.raises(CommandError, match="Not everything could be imported"):
        run(path)
    run(path, column=["date=Quando", "amount=Quanto", "counterparty=Chi"])
    assert one("transactions", counterparty="Bar")["amount"] == -10

    path.write_text(path.read_text() + "2026-01-07,5.00,Nonna\n")
    run(path)
    assert latest().created == 1
    assert one("transactions", counterparty="Nonna")["date"] == "2026-01-07"


def test_csv_with_debit_and_credit_columns(tmp_path: Path) -> None:
    path = tmp_path / "statement.csv"
    path.write_text(
        "Date\tDescription\tMoney out\tMoney in\n"
        "13/01/2026\tShop\t12.50\t\n14/01/2026\tSalary\t\t2,000.00\n"
    )

    run(path)

    assert one("transactions", counterparty="Shop")["amount"] == -12.5
    assert one("transactions", counterparty="Salary")["amount"] == 2000


def test_ambiguous_csv_dates_require_date_order(tmp_path: Path) -> None:
    path = tmp_path / "statement.csv"
    path.write_text("Date,Name,Amount\n03/04/2026,Shop,-1.00\n05/06/2026,Shop,-2.00\n")

    with pytest.raises(CommandError):
        run(path)
    run(path, date_order="mdy")

    assert one("transactions", amount=-1)["date"] == "2026-03-04"


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1.234,56", "1234.56"), ("1,234.56", "1234.56"), ("-12,50 €", "-12.50"),
        ("12,50-", "-12.50"), ("(12.00)", "-12.00"), ("\u221212.00", "-12.00"), ("+7", "7"),
        ("1'234.50", "1234.50"), ("1,234", "1234"), ("1.234.567", "1234567"), ("0,5", "0.5"),
        ("", None), ("viel", None), ("--", None), ("1.2.3,4,5", None),
    ],
)  # fmt: skip
def test_amounts_are_parsed(text: str, amount: str | None) -> None:
    assert parse_amount(text) == (None if amount is None else Decimal(amount))
