"""Importing lines of one stream, as the REST API does."""

from collections.abc import Iterator
from typing import Any

import orjson
import psycopg
import pytest
from django.db import OperationalError, connection

from evidence.errors import (
    ConnectionNotFound,
    ConnectionNotWritable,
    IngestStorageError,
    StreamNotDeclared,
)
from evidence.models.connections import Connection
from evidence.write.ingest import IngestResult, ingest_stream
from evidence.write.ndjson import NdjsonLine, ReceiptCode
from tests.distributed import cluster
from tests.world import NOW, PERSONAL, RECORDS, World
from tests.write import stored

ESTIMATED_RECORDS = (
    "SELECT reltuples FROM pg_class WHERE relname = 'evidence_record'"
    if cluster.programs() is None
    else "SELECT sum(result::real) FROM run_command_on_shards('evidence_record',"
    " 'SELECT reltuples FROM pg_class WHERE oid = ''%s''::regclass')"
)


def send(
    world: World, *lines: dict[str, Any], to: str = PERSONAL, stream: str = "messages"
) -> IngestResult:
    return ingest_stream(
        [NdjsonLine(number, orjson.dumps(line)) for number, line in enumerate(lines, 1)],
        connection_id=to,
        stream=stream,
        owner_id=world.owner_id,
        now=NOW,
    )


def status(value: str) -> None:
    Connection.unscoped.filter(connection_id=PERSONAL).update(status=value)


def test_lines_may_omit_connection_and_stream(world: World) -> None:
    outcome = send(world, {"key": "a", "data": {"id": "a"}}, {"key": "m1", "op": "delete"})
    assert (outcome.created, outcome.deleted) == (1, 1)
    assert stored.kinds(PERSONAL, "m1") == "cd"


def test_line_of_another_stream_is_rejected(world: World) -> None:
    outcome = send(
        world,
        {"data": {"id": "a"}, "stream": "threads"},
        {"data": {"id": "b"}, "connection_id": "cin_work"},
        {"data": {"id": "c"}, "connection_id": PERSONAL, "stream": "messages"},
    )
    assert [(each.line, each.code, each.path) for each in outcome.receipts] == [
        (1, ReceiptCode.INVALID_ENVELOPE, "$.stream"),
        (2, ReceiptCode.INVALID_ENVELOPE, "$.connection_id"),
    ]
    assert outcome.created == 1


def test_target_is_checked_before_reading(world: World) -> None:
    with pytest.raises(ConnectionNotFound):
        send(world, to="cin_nowhere")
    with pytest.raises(StreamNotDeclared):
        send(world, stream="nothing")
    status("revoked")
    with pytest.raises(ConnectionNotWritable):
        send(world)


@pytest.mark.parametrize(("before", "after"), [("draft", "active"), ("paused", "paused")])
def test_first_record_activates_a_draft_connection(world: World, before: str, after: str) -> None:
    status(before)
    send(world, {"data": {"subject": "no id"}})
    assert Connection.unscoped.get(connection_id=PERSONAL).status == before
    send(world, {"data": {"id": "a"}})
    assert Connection.unscoped.get(connection_id=PERSONAL).status == after


def test_empty_input_is_accepted(world: World) -> None:
    before = stored.everything()
    assert send(world).lines == 0
    assert stored.everything() == before


def test_interrupted_input_keeps_earlier_batches(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines() -> Iterator[NdjsonLine]:
        yield NdjsonLine(1, orjson.dumps({"data": {"id": "a"}}))
        yield NdjsonLine(2, orjson.dumps({"data": {"id": "b"}}))
        raise ConnectionResetError

    monkeypatch.setattr("evidence.write.batches.BATCH_LINES", 1)
    with pytest.raises(ConnectionResetError):
        ingest_stream(
            lines(),
            connection_id=PERSONAL,
            stream="messages",
            owner_id=world.owner_id,
            now=NOW,
        )
    assert stored.data(PERSONAL, "a")
    assert stored.data(PERSONAL, "b")
    assert stored.counts() == stored.true_counts()


def test_large_import_flushes_the_pending_list(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evidence.write.batches.BATCH_LINES", 3)
    monkeypatch.setattr("evidence.write.reindex.FLUSH_AFTER_RECORDS", 5)
    monkeypatch.setattr("evidence.write.reindex.ANALYZE_AFTER_RECORDS", 10)
    outcome = send(world, *({"data": {"id": f"r{number}"}} for number in range(20)))
    assert outcome.created == 20
    with connection.cursor() as cursor:
        cursor.execute(ESTIMATED_RECORDS)
        assert cursor.fetchone() == (20 + len(RECORDS),)


def test_database_error_is_logged_without_its_message(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        text = "disk full\nDETAIL: Failing row contains (xylophone)"
        raise OperationalError(text) from psycopg.errors.DiskFull(text)

    before = stored.everything()
    monkeypatch.setattr("evidence.write.batches.save_counts", fail)
    with pytest.raises(IngestStorageError) as failed:
        send(world, {"data": {"id": "a"}})
    assert failed.value.__cause__ is None
    assert "SQLSTATE 53100" in caplog.text
    assert "xylophone" not in caplog.text
    assert stored.everything() == before


@pytest.mark.parametrize("member", [{"op": "prune"}, {"replaces": ["old"]}])
def test_lines_of_one_stream_cannot_delete_other_keys(world: World, member: dict[str, Any]) -> None:
    assert send(world, {"key": "r", "data": {"id": "r"}} | member).rejected == 1
