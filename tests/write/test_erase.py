"""Erasure removes records, can suppress them, and updates counters."""

import pytest
from django.db import connection

from evidence.errors import ConnectionNotFound
from evidence.models.connections import Connection
from evidence.models.records import Blob, BlobChunk, Record, RecordChange, SearchText, Suppression
from evidence.write.blobs import put_blob
from evidence.write.ndjson import ReceiptCode
from evidence.write.record_erasure import delete_record, delete_stream, erase_connection
from tests.world import BANK, NOW, PERSONAL, RECORDS, WORK, World
from tests.write import stored


def erase_m1(*, suppress: bool) -> bool:
    return delete_record(PERSONAL, stream="messages", record_key="m1", suppress=suppress, now=NOW)


def attach(key: str = "m1") -> None:
    put_blob(
        PERSONAL,
        stream="messages",
        record_key=key,
        media_type="image/png",
        chunks=[b"x" * 300_000],
        now=NOW,
    )


def test_erased_record_leaves_only_a_tombstone(world: World) -> None:
    attach()
    attach("m2")
    assert erase_m1(suppress=False)
    assert stored.record(PERSONAL, "m1") is None
    assert not SearchText.unscoped.filter(connection_id=PERSONAL, record_key="m1").exists()
    assert stored.kinds(PERSONAL, "m1") == "cd"
    assert stored.counts() == stored.true_counts()
    assert [each.record_key for each in Blob.unscoped.all()] == ["m2"]
    assert BlobChunk.unscoped.count() == 2


def test_same_key_in_another_connection_stays(world: World) -> None:
    erase_m1(suppress=True)
    assert stored.record(WORK, "m1") is not None


def test_only_suppressed_records_cannot_be_imported_again(world: World) -> None:
    erase_m1(suppress=False)
    assert world.put(RECORDS[1]).created == 1
    erase_m1(suppress=True)
    outcome = world.put(*RECORDS[1:3])
    assert (outcome.created, outcome.unchanged) == (0, 1)
    assert outcome.by_code == {ReceiptCode.SUPPRESSED: 1}
    assert not outcome.rejected
    assert stored.record(PERSONAL, "m1") is None


def test_suppression_list_contains_no_keys(world: World) -> None:
    erase_m1(suppress=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT s::text FROM evidence_suppression s")
        ((row,),) = cursor.fetchall()
    assert "m1" not in row
    assert Suppression.unscoped.count() == 1


def test_suppression_clears_names_of_undeclared_fields(world: World) -> None:
    world.put((PERSONAL, "messages", {"id": "m1", "subject": "New", "added": 1}))
    erase_m1(suppress=True)
    created, updated, deleted = stored.changes(PERSONAL, "m1")
    assert created.changed is deleted.changed is None
    assert "added" not in updated.changed  # nobody declared it: the record's own word
    assert {"subject", "body_text"} <= {*updated.changed}


def test_erasing_a_missing_record_returns_false(world: World) -> None:
    before = stored.kinds(PERSONAL)
    assert not delete_record(PERSONAL, stream="messages", record_key="no", suppress=False, now=NOW)
    assert stored.kinds(PERSONAL) == before


def test_erased_stream_leaves_one_tombstone_per_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence.write.record_erasure.BATCH_SIZE", 2)
    threads = Record.unscoped.filter(connection_id=PERSONAL, stream="threads").count()
    assert delete_stream(PERSONAL, stream="messages", now=NOW) == 5
    assert not Record.unscoped.filter(connection_id=PERSONAL, stream="messages").exists()
    assert Record.unscoped.filter(connection_id=PERSONAL, stream="threads").count() == threads
    assert RecordChange.unscoped.filter(connection_id=PERSONAL, kind="d").count() == 5
    assert stored.counts() == stored.true_counts()


def test_erasing_a_connection_removes_its_rows_only(world: World) -> None:
    attach()
    erase_m1(suppress=True)
    others = Record.unscoped.exclude(connection_id=PERSONAL).count()
    assert erase_connection(PERSONAL) == 5
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.columns WHERE column_name = 'connection_id'"
            " AND table_name <> 'evidence_erasure'"
        )
        for (table,) in cursor.fetchall():
            statement = f'SELECT count(*) FROM "{table}" WHERE connection_id = %s'  # noqa: S608
            cursor.execute(statement, [PERSONAL])
            assert cursor.fetchone() == (0,), table
    assert Record.unscoped.count() == others
    assert Connection.unscoped.filter(connection_id=BANK).exists()


def test_erasing_an_unknown_connection_is_refused(world: World) -> None:
    with pytest.raises(ConnectionNotFound):
        delete_record("cin_nowhere", stream="messages", record_key="x", suppress=False, now=NOW)
    with pytest.raises(ConnectionNotFound):
        erase_connection("cin_nowhere")
