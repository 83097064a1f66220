"""Locks among the processes that share a database."""

import threading
from collections.abc import Iterator

import pytest
from django.db import connection, connections

from evidence import advisory_locks
from evidence.advisory_locks import HeldLock

pytestmark = pytest.mark.django_db

NAME = "a test"
HOLDERS = """
SELECT a.pid, a.state, a.backend_xmin, a.backend_xid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND ((l.classid::bigint << 32) | l.objid::bigint) = %s
"""


@pytest.fixture
def lock() -> Iterator[HeldLock]:
    taken = advisory_locks.try_lock(NAME)
    assert taken is not None
    yield taken
    taken.release()


def holders() -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(HOLDERS, [advisory_locks.key(NAME)])
        return list(cursor.fetchall())


def test_one_holder_at_a_time_has_a_lock(lock: HeldLock) -> None:
    with advisory_locks.try_exclusive(NAME) as is_free, advisory_locks.try_exclusive("b") as other:
        assert (is_free, other) == (False, True)
    lock.release()
    with advisory_locks.try_exclusive(NAME) as is_free:
        assert is_free


@pytest.mark.usefixtures("lock")
def test_lock_blocks_nobody_and_delays_no_vacuum() -> None:
    [(_, state, xmin, xid)] = holders()

    assert (state, xmin, xid) == ("idle in transaction", None, None)


def test_lock_uses_no_pooled_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    options = connections.settings["default"]["OPTIONS"]
    monkeypatch.setitem(options, "pool", {"min_size": 1, "max_size": 1})

    with advisory_locks.exclusive(NAME):
        assert holders()


@pytest.mark.usefixtures("lock")
def test_lost_connection_frees_the_lock() -> None:
    [(pid, *_)] = holders()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])

    assert holders() == []


def test_exclusive_waits(lock: HeldLock) -> None:
    entered = threading.Event()

    def wait() -> None:
        with advisory_locks.exclusive(NAME):
            entered.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not entered.wait(0.1)
    lock.release()
    assert entered.wait(60)
    waiting.join()
