"""Deletions leave tombstones; lines of one record apply in order."""

from typing import Any

from evidence.models.records import SearchText
from evidence.write.ndjson import ReceiptCode
from evidence.write.record_erasure import delete_record
from tests.world import CHAT, NOW, PERSONAL, WORK, World
from tests.write import stored


def line(key: str, *, op: str = "upsert", to: str = PERSONAL, **data: Any) -> dict[str, Any]:
    members: dict[str, Any] = {"connection_id": to, "stream": "messages", "key": key, "op": op}
    if op == "upsert":
        members["data"] = {"id": key} | data
    return members


def test_deletion_removes_record_and_search_text(world: World) -> None:
    world.send([line("r", subject="Gone soon")])
    outcome = world.send([line("r", op="delete")])
    assert outcome.deleted == 1
    assert stored.record(PERSONAL, "r") is None
    assert not SearchText.unscoped.filter(connection_id=PERSONAL, record_key="r").exists()
    *_, tombstone = stored.changes(PERSONAL, "r")
    assert tombstone.kind == "d"
    assert tombstone.changed is None


def test_deleted_record_can_be_created_again(world: World) -> None:
    world.send([line("r", subject="One"), line("r", op="delete"), line("r", subject="One")])
    assert stored.kinds(PERSONAL, "r") == "cdc"
    assert "one" in stored.terms(PERSONAL, "r")


def test_second_deletion_adds_no_tombstone(world: World) -> None:
    world.send([line("r"), line("r", op="delete"), line("r", op="delete")])
    assert stored.kinds(PERSONAL, "r") == "cd"


def test_last_line_of_a_key_wins_with_a_receipt(world: World) -> None:
    outcome = world.send([line("r", subject="One"), line("r", subject="Two")])
    assert stored.data(PERSONAL, "r")["subject"] == "Two"
    assert stored.kinds(PERSONAL, "r") == "cu"
    assert outcome.duplicates == 1
    assert [(each.line, each.code) for each in outcome.notices] == [(2, ReceiptCode.DUPLICATE_KEY)]
    assert not outcome.receipts
    assert not outcome.rejected


def test_equal_line_gets_no_receipt(world: World) -> None:
    outcome = world.send([line("r", subject="One"), line("r", subject="One")])
    assert (outcome.created, outcome.unchanged, outcome.duplicates) == (1, 1, 0)


def test_replacing_a_record_of_an_earlier_import_gets_no_receipt(world: World) -> None:
    world.send([line("r", subject="One")])
    assert world.send([line("r", subject="Two")]).duplicates == 0


def test_key_is_separate_per_connection_and_stream(world: World) -> None:
    outcome = world.send(
        [
            line("same", subject="Personal"),
            line("same", to=WORK, subject="Work"),
            line("same", to=CHAT, text="Chat"),
            line("same") | {"stream": "threads"},
        ]
    )
    assert (outcome.created, outcome.duplicates) == (4, 0)
    assert stored.data(WORK, "same")["subject"] == "Work"


def test_two_updates_in_one_import_have_two_change_entries(world: World) -> None:
    world.send([line("r", subject="One", is_seen=False)])
    world.send([line("r", subject="Two", is_seen=False), line("r", subject="Two", is_seen=True)])
    assert stored.kinds(PERSONAL, "r") == "cuu"
    assert "two" in stored.terms(PERSONAL, "r")
    assert stored.counts() == stored.true_counts()


def test_record_replaces_its_earlier_keys(world: World) -> None:
    world.send([line("old", subject="One"), line("other")])

    outcome = world.send([line("new", subject="One") | {"replaces": ["old", "unknown"]}])

    assert (outcome.created, outcome.deleted) == (1, 1)
    assert stored.record(PERSONAL, "old") is None
    assert stored.record(PERSONAL, "other") is not None
    assert world.send([line("new", subject="One") | {"replaces": ["old"]}]).unchanged == 1


def test_record_under_a_new_key_stays_erased(world: World) -> None:
    world.send([line("old", subject="One")])
    delete_record(PERSONAL, stream="messages", record_key="old", suppress=True, now=NOW)

    outcome = world.send([line("new", subject="One") | {"replaces": ["old"]}])

    assert outcome.by_code == {ReceiptCode.SUPPRESSED: 1}
    assert stored.record(PERSONAL, "new") is None


def test_prune_deletes_keys_below_a_key(world: World) -> None:
    world.send([line(key) for key in ("s", "s.1", "s.2", "s.3", "s0", "sa", "r")])
    prune = line("s", op="prune") | {"data": {"keep": ["s.3"], "from": "s.2"}}

    outcome = world.send([line("s.4"), prune])

    assert outcome.deleted == 3
    keys = ("s", "s.1", "s.2", "s.3", "s.4", "s0", "sa", "r")
    found = {key for key in keys if stored.record(PERSONAL, key)}
    assert found == {"s.1", "s.3", "s0", "sa", "r"}
