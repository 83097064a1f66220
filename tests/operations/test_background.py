"""Background jobs and their threads."""

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


def test_job_repeats_until_stopped() -> None:
    done: list[int] = []
    often = threading.Event()

    def job() -> Iterator[int]:
        done.append(len(done))
        if len(done) == 3:
            often.set()
        yield 1

    with background_jobs.run_repeatedly(job, pause=0):
        assert often.wait(60)
    before = len(done)
    assert not [thread for thread in threading.enumerate() if thread.name == "background"]
    assert len(done) == before


def test_job_runs_again_after_a_database_error(caplog: pytest.LogCaptureFixture) -> None:
    again = threading.Event()
    tried: list[int] = []

    def job() -> Iterator[int]:
        tried.append(1)
        if len(tried) > 1:
            again.set()
        raise DatabaseError("it quotes a secret record")
        yield 1

    with background_jobs.run_repeatedly(job, pause=0):
        assert again.wait(60)
    assert "background job job failed" in caplog.text
    assert "secret" not in caplog.text


def test_long_job_stops_between_steps() -> None:
    begun = threading.Event()

    def job() -> Iterator[int]:
        while True:
            begun.set()
            yield 1

    with background_jobs.run_repeatedly(job, pause=0):
        assert begun.wait(60)


def test_job_that_is_stopped_as_it_begins_again_does_not_rest() -> None:
    class Woken(threading.Event):
        def clear(self) -> None:
            """Stop the job just before, as the thread that ends it may."""
            loop.stopped.set()
            self.set()
            super().clear()

    loop = background_jobs._Loop(lambda: iter([0]), 600, 600, background_jobs.always_allowed)
    loop.woken = Woken()
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    thread.join(60)

    assert not thread.is_alive()


def test_vectors_job_embeds_missing_texts(embedded: World) -> None:
    EmbeddedStream.unscoped.all().delete()
    assert sum(background_jobs.vectors()) == 0
    assert EmbeddedStream.unscoped.count() > 0


def test_upkeep_prunes_and_signs_the_ledger(world: World) -> None:
    kept = {
        connection_id: world.get("/v1/streams/messages/records", connection_id=connection_id,
                                 changes_since="beginning").body["next_changes_since"]
        for connection_id in (PERSONAL,)
    }  # fmt: skip
    with time_machine.travel(datetime.now(UTC) + timedelta(days=200), tick=False):
        for _ in background_jobs.upkeep():
            pass
        assert Checkpoint.unscoped.count() == 1
        world.put((PERSONAL, "messages", mail("m1", "2026-01-10T09:00:00Z", subject="Anew")))
        answer = world.get("/v1/streams/messages/records", connection_id=PERSONAL,
                           changes_since=kept[PERSONAL])  # fmt: skip
    assert answer.status == 410
