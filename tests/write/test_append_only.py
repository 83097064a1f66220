"""Append-only streams reject changes unless the owner allows them."""

from typing import Any

from evidence.write.ingest import IngestResult, ingest_lines
from evidence.write.ndjson import NdjsonLine, ReceiptCode
from tests.world import BANK, NOW, World
from tests.write import stored


def send(world: World, *members: dict[str, Any], replace: bool = False) -> IngestResult:
    import json

    lines = [
        NdjsonLine(n, json.dumps({"connection_id": BANK, "stream": "transactions"} | each).encode())
        for n, each in enumerate(members, 1)
    ]
    return ingest_lines(lines, owner_id=world.owner_id, now=NOW, replace=replace)


def payment(amount: int, **more: Any) -> dict[str, Any]:
    return {"data": {"id": "p", "date": "2026-05-01", "amount": amount}} | more


def test_equal_record_is_unchanged_at_any_time(world: World) -> None:
    send(world, payment(5, emitted_at="2026-05-02T00:00:00Z"))
    before = stored.everything()
    assert send(world, payment(5, emitted_at="2026-05-09T00:00:00Z")).unchanged == 1
    assert stored.everything() == before


def test_different_record_with_the_same_key_is_rejected(world: World) -> None:
    send(world, payment(5))
    outcome = send(world, payment(6), payment(5))
    assert [(each.line, each.code) for each in outcome.receipts] == [
        (1, ReceiptCode.APPEND_ONLY_CONFLICT)
    ]
    assert stored.data(BANK, "p", "transactions")["amount"] == 5
    assert stored.kinds(BANK, "p") == "c"


def test_two_records_with_one_key_in_one_import_conflict(world: World) -> None:
    outcome = send(world, payment(5), payment(6), payment(5))
    assert (outcome.created, outcome.unchanged, outcome.rejected) == (1, 1, 1)
    assert [(each.line, each.code) for each in outcome.receipts] == [
        (2, ReceiptCode.APPEND_ONLY_CONFLICT)
    ]


def test_deletion_is_rejected(world: World) -> None:
    send(world, payment(5))
    assert send(world, {"key": "p", "op": "delete"}).by_code == {
        ReceiptCode.APPEND_ONLY_CONFLICT: 1
    }
    assert stored.data(BANK, "p", "transactions")["amount"] == 5


def test_deleting_a_missing_record_changes_nothing(world: World) -> None:
    assert send(world, {"key": "nothing", "op": "delete"}).unchanged == 1


def test_replace_option_allows_replacing_and_deleting(world: World) -> None:
    send(world, payment(5))
    assert send(world, payment(6), replace=True).updated == 1
    assert stored.data(BANK, "p", "transactions")["amount"] == 6
    assert send(world, {"key": "p", "op": "delete"}, replace=True).deleted == 1
    assert stored.kinds(BANK, "p") == "cud"
