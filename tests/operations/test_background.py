"""Work that goes on beside requests."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.db import DatabaseError

from evidence.models.connections import EmbeddedStream
from evidence.models.ledger import Checkpoint
from operations import background_jobs
from tests.world import PERSONAL, World, mail


def test_a_job_is_done_again_until_it_is_stopped() -> None:
    done: list[int] = []
    often = threading.Event()

    def job() -> Iterator[int]:
        done.append(len(done))
        if len(done) == 3:
            often.set()
        yield 1

    with background_jobs.going_on(job, pause=0):
        assert often.wait(10)
    before = len(done)
    assert not [thread for thread in threading.enumerate() if thread.name == "background"]
    assert len(done) == before


def test_a_database_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    again = threading.Event()
    tried: list[int] = []

    def job() -> Iterator[int]:
        tried.append(1)
        if len(tried) > 1:
            again.set()
        raise DatabaseError("it quotes a secret record")
        yield 1

    with background_jobs.going_on(job, pause=0):
        assert again.wait(10)
    assert "background work failed" in caplog.text
    assert "secret" not in caplog.text


def test_a_long_job_stops_between_two_pieces() -> None:
    begun = threading.Event()

    def job() -> Iterator[int]:
        while True:
            begun.set()
            yield 1

    with background_jobs.going_on(job, pause=0):
        assert begun.wait(10)


def test_vectors_are_made_for_whatever_has_none(embedded: World) -> None:
    EmbeddedStream.unscoped.all().delete()
    assert sum(background_jobs.vectors()) == 0
    assert EmbeddedStream.unscoped.count() > 0


def test_upkeep_forgets_what_is_past_its_keeping_and_signs_the_ledger(world: World) -> None:
    kept = {
        connection_id: world.get("/v1/streams/messages/records", connection_id=connection_id,
                                 changes_since="beginning").body["next_changes_since"]
        for connection_id in (PERSONAL,)
    }  # fmt: skip
    with time_machine.travel(datetime.now(UTC) + timedelta(days=200), tick=False):
        assert sum(1 for _ in background_jobs.upkeep()) == 8
        assert Checkpoint.unscoped.count() == 1
        world.put((PERSONAL, "messages", mail("m1", "2026-01-10T09:00:00Z", subject="Anew")))
        answer = world.get("/v1/streams/messages/records", connection_id=PERSONAL,
                           changes_since=kept[PERSONAL])  # fmt: skip
    assert answer.status == 410
