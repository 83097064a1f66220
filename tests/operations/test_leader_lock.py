"""One process at a time, over a database that all of them share."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone

from evidence import advisory_locks
from operations import background_jobs, health, leader_lock
from operations.leader_lock import Turn

pytestmark = pytest.mark.django_db

NAME = "a test"
HOLDERS = """
SELECT a.pid, a.state, a.backend_xmin, a.backend_xid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND ((l.classid::bigint << 32) | l.objid::bigint) = %s
"""


@pytest.fixture(autouse=True)
def _always_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_lock, "ASK_SECONDS", 0.01)


@pytest.fixture
def one() -> Iterator[Turn]:
    turn = Turn(NAME)
    yield turn
    turn.close()


@pytest.fixture
def other() -> Iterator[Turn]:
    turn = Turn(NAME)
    yield turn
    turn.close()


def asked_now(turn: Turn) -> bool:
    turn._asked_at = float("-inf")
    return turn.is_ours()


def holders() -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(HOLDERS, [advisory_locks.key(NAME)])
        return list(cursor.fetchall())


def test_it_is_the_turn_of_one_until_that_one_ends(one: Turn, other: Turn) -> None:
    assert one.is_ours()
    assert not other.is_ours()
    assert asked_now(one)

    one.close()

    assert asked_now(other)
    assert not asked_now(one)


def test_different_turns_do_not_meet(one: Turn) -> None:
    assert one.is_ours()
    another = Turn("another test")
    assert another.is_ours()
    another.close()


@pytest.mark.django_db(transaction=True)
def test_whoever_leaves_the_work_to_others_knows_whether_one_does_it(settings: Any) -> None:
    settings.PDPP_BACKGROUND = False
    another, worker = Turn("another test"), Turn(leader_lock.BACKGROUND)
    assert another.is_ours()
    assert health.idle(timezone.now()) == health.NOBODY
    assert worker.is_ours()
    assert health.idle(timezone.now()) is None
    worker.close()
    assert health.idle(timezone.now()) == health.NOBODY
    settings.PDPP_BACKGROUND = True
    assert health.idle(timezone.now()) is None
    another.close()


def test_a_turn_keeps_nobody_waiting_and_no_old_rows(one: Turn) -> None:
    assert one.is_ours()

    [(_, state, xmin, xid)] = holders()

    assert (state, xmin, xid) == ("idle in transaction", None, None)


def test_a_turn_takes_no_connection_from_requests(
    one: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = connections.settings["default"]["OPTIONS"]
    monkeypatch.setitem(options, "pool", {"min_size": 1, "max_size": 1})

    assert one.is_ours()

    held: Any = one._held
    assert held._own.pool is None
    assert holders()


def test_a_turn_whose_connection_is_lost_goes_to_another(one: Turn, other: Turn) -> None:
    assert one.is_ours()
    [(pid, *_)] = holders()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])

    assert asked_now(other)
    assert not asked_now(one)


def test_whoever_must_be_alone_waits(one: Turn) -> None:
    assert one.is_ours()
    entered = threading.Event()

    def wait() -> None:
        with advisory_locks.exclusive(NAME):
            entered.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not entered.wait(0.1)
    one.close()
    assert entered.wait(10)
    waiting.join()


def test_work_is_done_in_ones_turn_and_stops_with_it() -> None:
    ours, done = threading.Event(), threading.Event()
    pieces: list[int] = []

    def job() -> Iterator[int]:
        while True:
            assert ours.is_set()
            pieces.append(1)
            ours.clear()
            done.set()
            yield 1

    with background_jobs.going_on(job, pause=0, may=ours.is_set):
        assert not done.wait(0.1)
        assert pieces == []
        ours.set()
        assert done.wait(10)
