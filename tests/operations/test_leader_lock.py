"""Leader election over a shared database."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone

from evidence import advisory_locks
from operations import background_jobs, health, leader_lock
from operations.leader_lock import LeaderLock

pytestmark = pytest.mark.django_db

NAME = "a test"
HOLDERS = """
SELECT a.pid, a.state, a.backend_xmin, a.backend_xid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND ((l.classid::bigint << 32) | l.objid::bigint) = %s
"""


@pytest.fixture(autouse=True)
def _always_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_lock, "RETRY_SECONDS", 0.01)


@pytest.fixture
def one() -> Iterator[LeaderLock]:
    turn = LeaderLock(NAME)
    yield turn
    turn.close()


@pytest.fixture
def other() -> Iterator[LeaderLock]:
    turn = LeaderLock(NAME)
    yield turn
    turn.close()


def asked_now(turn: LeaderLock) -> bool:
    turn._checked_at = float("-inf")
    return turn.is_leader()


def holders() -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(HOLDERS, [advisory_locks.key(NAME)])
        return list(cursor.fetchall())


def test_one_process_leads_until_it_closes(one: LeaderLock, other: LeaderLock) -> None:
    assert one.is_leader()
    assert not other.is_leader()
    assert asked_now(one)

    one.close()

    assert asked_now(other)
    assert not asked_now(one)


def test_different_names_have_different_leaders(one: LeaderLock) -> None:
    assert one.is_leader()
    another = LeaderLock("another test")
    assert another.is_leader()
    another.close()


@pytest.mark.django_db(transaction=True)
def test_missing_leader_is_reported(settings: Any) -> None:
    settings.PDPP_BACKGROUND = False
    another, worker = LeaderLock("another test"), LeaderLock(leader_lock.BACKGROUND_JOBS)
    assert another.is_leader()
    assert health.background_warning(timezone.now()) == health.NO_LEADER
    assert worker.is_leader()
    assert health.background_warning(timezone.now()) is None
    worker.close()
    assert health.background_warning(timezone.now()) == health.NO_LEADER
    settings.PDPP_BACKGROUND = True
    assert health.background_warning(timezone.now()) is None
    another.close()


def test_lock_blocks_nobody_and_delays_no_vacuum(one: LeaderLock) -> None:
    assert one.is_leader()

    [(_, state, xmin, xid)] = holders()

    assert (state, xmin, xid) == ("idle in transaction", None, None)


def test_lock_uses_no_pooled_connection(one: LeaderLock, monkeypatch: pytest.MonkeyPatch) -> None:
    options = connections.settings["default"]["OPTIONS"]
    monkeypatch.setitem(options, "pool", {"min_size": 1, "max_size": 1})

    assert one.is_leader()

    held: Any = one._lock
    assert held._own.pool is None
    assert holders()


def test_lost_connection_lets_another_process_lead(one: LeaderLock, other: LeaderLock) -> None:
    assert one.is_leader()
    [(pid, *_)] = holders()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])

    assert asked_now(other)
    assert not asked_now(one)


def test_exclusive_waits(one: LeaderLock) -> None:
    assert one.is_leader()
    entered = threading.Event()

    def wait() -> None:
        with advisory_locks.exclusive(NAME):
            entered.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not entered.wait(0.1)
    one.close()
    assert entered.wait(60)
    waiting.join()


def test_job_runs_only_on_the_leader() -> None:
    ours, done = threading.Event(), threading.Event()
    pieces: list[int] = []

    def job() -> Iterator[int]:
        while True:
            assert ours.is_set()
            pieces.append(1)
            ours.clear()
            done.set()
            yield 1

    with background_jobs.run_repeatedly(job, pause=0, may_run=ours.is_set):
        assert not done.wait(0.1)
        assert pieces == []
        ours.set()
        assert done.wait(60)
