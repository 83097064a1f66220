"""Work that goes on beside requests."""

import threading
from collections.abc import Iterator

import pytest
from django.db import DatabaseError

from evidence.models.embedded import EmbeddedStream
from pdpp_site import background
from tests.world import World


def test_a_job_is_done_again_until_it_is_stopped() -> None:
    done: list[int] = []
    often = threading.Event()

    def job() -> Iterator[int]:
        done.append(len(done))
        if len(done) == 3:
            often.set()
        yield 1

    with background.going_on(job, pause=0):
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

    with background.going_on(job, pause=0):
        assert again.wait(10)
    assert "background work failed" in caplog.text
    assert "secret" not in caplog.text


def test_a_long_job_stops_between_two_pieces() -> None:
    begun = threading.Event()

    def job() -> Iterator[int]:
        while True:
            begun.set()
            yield 1

    with background.going_on(job, pause=0):
        assert begun.wait(10)


def test_vectors_are_made_for_whatever_has_none(embedded: World) -> None:
    EmbeddedStream.unscoped.all().delete()
    assert sum(background.vectors()) == 0
    assert EmbeddedStream.unscoped.count() > 0
