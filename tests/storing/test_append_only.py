"""Streams that only append keep what they have, unless the owner says otherwise."""

from typing import Any

from evidence.storing.ingest import Outcome, ingest_lines
from evidence.storing.ndjson import Line
from evidence.storing.receipts import Code
from tests.storing import stored
from tests.world import BANK, NOW, World


def send(world: World, *members: dict[str, Any], replace: bool = False) -> Outcome:
    import json

    lines = [
        Line(n, json.dumps({"connection_id": BANK, "stream": "transactions"} | each).encode())
        for n, each in enumerate(members, 1)
    ]
    return ingest_lines(lines, owner_id=world.owner_id, now=NOW, replace=replace)


def payment(amount: int, **more: Any) -> dict[str, Any]:
    return {"data": {"id": "p", "date": "2026-05-01", "amount": amount}} | more


def test_the_same_payment_again_is_no_matter_whatever_its_time(world: World) -> None:
    send(world, payment(5, emitted_at="2026-05-02T00:00:00Z"))
    before = stored.everything()
    assert send(world, payment(5, emitted_at="2026-05-09T00:00:00Z")).unchanged == 1
    assert stored.everything() == before


def test_another_payment_of_the_same_key_is_refused(world: World) -> None:
    send(world, payment(5))
    outcome = send(world, payment(6), payment(5))
    assert [(each.line, each.code) for each in outcome.receipts] == [(1, Code.APPEND_ONLY_CONFLICT)]
    assert stored.data(BANK, "p", "transactions")["amount"] == 5
    assert stored.kinds(BANK, "p") == "c"


def test_two_different_payments_of_one_key_in_one_import_conflict(world: World) -> None:
    outcome = send(world, payment(5), payment(6), payment(5))
    assert (outcome.created, outcome.unchanged, outcome.refused) == (1, 1, 1)
    assert [(each.line, each.code) for each in outcome.receipts] == [(2, Code.APPEND_ONLY_CONFLICT)]


def test_a_payment_is_not_deleted(world: World) -> None:
    send(world, payment(5))
    assert send(world, {"key": "p", "op": "delete"}).by_code == {Code.APPEND_ONLY_CONFLICT: 1}
    assert stored.data(BANK, "p", "transactions")["amount"] == 5


def test_deleting_what_is_not_there_is_no_matter(world: World) -> None:
    assert send(world, {"key": "nothing", "op": "delete"}).unchanged == 1


def test_the_owner_may_replace_and_delete(world: World) -> None:
    send(world, payment(5))
    assert send(world, payment(6), replace=True).updated == 1
    assert stored.data(BANK, "p", "transactions")["amount"] == 6
    assert send(world, {"key": "p", "op": "delete"}, replace=True).deleted == 1
    assert stored.kinds(BANK, "p") == "cud"
