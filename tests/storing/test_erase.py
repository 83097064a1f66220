"""What the owner erases is gone, stays gone if so wished, and leaves the counters right."""

import pytest
from django.db import connection

from evidence.errors import ConnectionNotFound
from evidence.models.connections import Connection
from evidence.models.records import Blob, BlobChunk, Record, RecordChange, SearchText, Suppression
from evidence.storing.blobs import put_blob
from evidence.storing.receipts import Code
from evidence.storing.record_erasure import erase, erase_connection, erase_stream
from tests.storing import stored
from tests.world import BANK, NOW, PERSONAL, RECORDS, WORK, World


def erase_m1(*, suppress: bool) -> bool:
    return erase(PERSONAL, stream="messages", record_key="m1", suppress=suppress, now=NOW)


def attach(key: str = "m1") -> None:
    put_blob(
        PERSONAL,
        stream="messages",
        record_key=key,
        media_type="image/png",
        chunks=[b"x" * 300_000],
        now=NOW,
    )


def test_an_erased_record_leaves_a_tombstone_and_nothing_else(world: World) -> None:
    attach()
    attach("m2")
    assert erase_m1(suppress=False)
    assert stored.record(PERSONAL, "m1") is None
    assert not SearchText.unscoped.filter(connection_id=PERSONAL, record_key="m1").exists()
    assert stored.kinds(PERSONAL, "m1") == "cd"
    assert stored.counts() == stored.true_counts()
    assert [each.record_key for each in Blob.unscoped.all()] == ["m2"]
    assert BlobChunk.unscoped.count() == 2


def test_the_record_of_that_key_in_another_connection_stays(world: World) -> None:
    erase_m1(suppress=True)
    assert stored.record(WORK, "m1") is not None


def test_an_erased_record_may_come_back_unless_it_is_suppressed(world: World) -> None:
    erase_m1(suppress=False)
    assert world.put(RECORDS[1]).created == 1
    erase_m1(suppress=True)
    outcome = world.put(*RECORDS[1:3])
    assert (outcome.created, outcome.unchanged) == (0, 1)
    assert outcome.by_code == {Code.SUPPRESSED: 1}
    assert not outcome.refused
    assert stored.record(PERSONAL, "m1") is None


def test_the_suppression_list_does_not_say_what_was_erased(world: World) -> None:
    erase_m1(suppress=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT s::text FROM evidence_suppression s")
        ((row,),) = cursor.fetchall()
    assert "m1" not in row
    assert Suppression.unscoped.count() == 1


def test_suppression_forgets_what_changes_said_of_the_values(world: World) -> None:
    world.put((PERSONAL, "messages", {"id": "m1", "subject": "New", "added": 1}))
    erase_m1(suppress=True)
    created, updated, deleted = stored.changes(PERSONAL, "m1")
    assert created.before is None
    assert updated.before is not None
    assert "added" not in updated.before  # nobody declared it: the record's own word
    assert updated.before["subject"] == ""
    assert updated.before["body_text"] == ""
    assert deleted.before == {"id": "", "subject": ""}


def test_erasing_what_is_not_there_says_so(world: World) -> None:
    before = stored.kinds(PERSONAL)
    assert not erase(PERSONAL, stream="messages", record_key="no", suppress=False, now=NOW)
    assert stored.kinds(PERSONAL) == before


def test_a_stream_is_erased_with_a_tombstone_each(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence.storing.record_erasure.RECORDS_AT_ONCE", 2)
    threads = Record.unscoped.filter(connection_id=PERSONAL, stream="threads").count()
    assert erase_stream(PERSONAL, stream="messages", now=NOW) == 5
    assert not Record.unscoped.filter(connection_id=PERSONAL, stream="messages").exists()
    assert Record.unscoped.filter(connection_id=PERSONAL, stream="threads").count() == threads
    assert RecordChange.unscoped.filter(connection_id=PERSONAL, kind="d").count() == 5
    assert stored.counts() == stored.true_counts()


def test_a_connection_goes_with_everything_it_holds_and_no_other(world: World) -> None:
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


def test_a_connection_that_is_not_there_is_refused(world: World) -> None:
    with pytest.raises(ConnectionNotFound):
        erase("cin_nowhere", stream="messages", record_key="x", suppress=False, now=NOW)
    with pytest.raises(ConnectionNotFound):
        erase_connection("cin_nowhere")
