"""Lines for one stream of one connection, as REST sends them."""

from typing import Any

import orjson
import pytest

from evidence.models.connections import Connection
from evidence.refusals import (
    ConnectionNotFound,
    ConnectionNotWritable,
    IngestStorageError,
    StreamNotDeclared,
)
from evidence.storing.connections import set_languages
from evidence.storing.ingest import Outcome, ingest_stream
from evidence.storing.lines import Line
from evidence.storing.receipts import Code
from tests.storing import stored
from tests.world import NOW, PERSONAL, RECORDS, World


def send(
    world: World, *lines: dict[str, Any], to: str = PERSONAL, stream: str = "messages"
) -> Outcome:
    return ingest_stream(
        [Line(number, orjson.dumps(line)) for number, line in enumerate(lines, 1)],
        connection_id=to,
        stream=stream,
        owner_id=world.owner_id,
        now=NOW,
    )


def status(value: str) -> None:
    Connection.unscoped.filter(connection_id=PERSONAL).update(status=value)


def test_lines_need_not_say_where_they_belong(world: World) -> None:
    outcome = send(world, {"key": "a", "data": {"id": "a"}}, {"key": "m1", "op": "delete"})
    assert (outcome.created, outcome.deleted) == (1, 1)
    assert stored.kinds(PERSONAL, "m1") == "cd"


def test_a_line_that_belongs_elsewhere_is_refused(world: World) -> None:
    outcome = send(
        world,
        {"data": {"id": "a"}, "stream": "threads"},
        {"data": {"id": "b"}, "connection_id": "cin_work"},
        {"data": {"id": "c"}, "connection_id": PERSONAL, "stream": "messages"},
    )
    assert [(each.line, each.code, each.path) for each in outcome.receipts] == [
        (1, Code.INVALID_ENVELOPE, "$.stream"),
        (2, Code.INVALID_ENVELOPE, "$.connection_id"),
    ]
    assert outcome.created == 1


def test_where_they_are_to_go_is_checked_before_a_line_is_read(world: World) -> None:
    with pytest.raises(ConnectionNotFound):
        send(world, to="cin_nowhere")
    with pytest.raises(StreamNotDeclared):
        send(world, stream="nothing")
    status("revoked")
    with pytest.raises(ConnectionNotWritable):
        send(world)


@pytest.mark.parametrize(("before", "after"), [("draft", "active"), ("paused", "paused")])
def test_the_first_record_makes_a_draft_active(world: World, before: str, after: str) -> None:
    status(before)
    send(world, {"data": {"subject": "no id"}})
    assert Connection.unscoped.get(connection_id=PERSONAL).status == before
    send(world, {"data": {"id": "a"}})
    assert Connection.unscoped.get(connection_id=PERSONAL).status == after


def test_no_lines_are_no_matter(world: World) -> None:
    before = stored.everything()
    assert send(world).lines == 0
    assert stored.everything() == before


def test_new_languages_index_the_texts_anew(world: World) -> None:
    send(world, {"data": {"id": "fr", "subject": "les chevaux"}})
    assert "cheval" not in stored.terms(PERSONAL, "fr")
    held = sum(connection_id == PERSONAL for connection_id, _, _ in RECORDS) + 1
    assert set_languages(PERSONAL, languages=["fr"], now=NOW) == held
    assert "cheval" in stored.terms(PERSONAL, "fr")
    assert set_languages(PERSONAL, languages=["fr"], now=NOW) == 0


def test_a_failure_of_the_database_is_told_as_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import OperationalError

    def fail(*_: object) -> None:
        raise OperationalError("disk full")

    before = stored.everything()
    monkeypatch.setattr("evidence.storing.changes.save_counts", lambda *_, **__: fail())
    with pytest.raises(IngestStorageError):
        send(world, {"data": {"id": "a"}})
    assert stored.everything() == before
