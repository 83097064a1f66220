"""Bank statements as tables: each booking is in its account, with every text that the bank wrote."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.core.management.base import CommandError

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from importers.models import ImportReceipt
from tests.importers.imports import connection, receipts, records, run

if TYPE_CHECKING:
    from tests.world import World

pytestmark = pytest.mark.django_db

OWN = "DE89370400440532013000"
OTHER = "DE02120300000000202051"
SAVINGS = (
    "Buchungstag;Name;Verwendungszweck;IBAN;Betrag;Währung\n"
    f"13.01.2026;Eva Lang;Sparen;{OTHER};100,00;EUR\n"
    f"14.01.2026;Eva Lang;Ausgabe;{OTHER};-50,00;EUR\n"
)


def put(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("name", "above"),
    [("umsaetze.csv", f"Konto;{OWN}\n\n"), (f"umsaetze_{OWN}.csv", "")],
    ids=["above the header", "in the file name"],
)
def test_only_other_side_of_a_savings_account_is_not_its_owner(
    tmp_path: Path, name: str, above: str
) -> None:
    run(put(tmp_path / name, above + SAVINGS), column=["date=Buchungstag"])

    (account,) = records("accounts")
    assert account["name"] == "Account …3000"
    assert {row["account_id"] for row in records("transactions")} == {account["id"]}
    assert {row["counterparty_account"] for row in records("transactions")} == {OTHER}


@pytest.mark.parametrize(
    ("answer", "account", "other"),
    [("account=IBAN", "Account …2051", None), ("counterparty_account=IBAN", "giro", OTHER)],
)
def test_whose_a_constant_number_is_the_owner_says(
    tmp_path: Path, answer: str, account: str, other: str | None
) -> None:
    path = put(tmp_path / "giro.csv", SAVINGS)

    with pytest.raises(CommandError, match="Not everything could be imported"):
        run(path)
    assert records("transactions") == []
    run(path, column=["date=Buchungstag", answer])

    assert [row["name"] for row in records("accounts")] == [account]
    assert {row["counterparty_account"] for row in records("transactions")} == {other}


def test_no_column_is_dropped(tmp_path: Path) -> None:
    run(put(tmp_path / "giro.csv", (
        "Date;Payee;Amount;Zweckbestimmung;Mandat;Saldo\n"
        "13.01.2026;Shop;-1,50;Wasserhahn repariert;M-17;98,50\n14.01.2026;Acme;2,50;;;101,00\n"
    )))  # fmt: skip

    details = {row["counterparty"]: row["details"] for row in records("transactions")}
    assert details == {
        "Shop": "Zweckbestimmung: Wasserhahn repariert\nMandat: M-17\nSaldo: 98,50",
        "Acme": "Saldo: 101,00",
    }
    assert receipts() == {("columns_kept", "header")}
    assert "Zweckbestimmung, Mandat" in ImportReceipt.unscoped.get().detail


def test_text_of_an_unknown_column_is_found(world: "World", tmp_path: Path) -> None:
    run(put(tmp_path / "giro.csv", "Date;Payee;Amount;Grund\n13.01.2026;Shop;-1,50;Wasserhahn\n"))
    world.grant("reader", GrantRequest(
        connection_ids=[connection("Bank").connection_id],
        streams=[StreamRequest(name="transactions")],
    ))  # fmt: skip

    hits = world.get("/v1/search", "reader", q="Wasserhahn").body["data"]

    keys = {row["details"]: row["id"] for row in records("transactions") if "details" in row}
    assert [hit["record_key"] for hit in hits] == [keys["Grund: Wasserhahn"]]
