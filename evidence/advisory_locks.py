"""Locks among all processes that share a database.

A holder keeps a PostgreSQL advisory lock inside an open transaction, on a connection of its own. A
transaction lock, unlike a session lock, works behind PgBouncer in transaction mode, and PostgreSQL
releases it when the process dies. The transaction reads and writes nothing, so it blocks no one and
delays no vacuum.
"""

import contextlib
import hashlib
import time
from collections.abc import Iterator

from django.db import DEFAULT_DB_ALIAS, Error, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

RETRY_SECONDS = 0.2

TRY_LOCK = """
-- Take a lock if it is free. Polled, never awaited: a waiting statement would block CREATE INDEX
-- CONCURRENTLY. Parameter: the key of the lock.
SELECT pg_try_advisory_xact_lock(%s)
"""
IS_LOCKED = """
-- Return whether any process holds a lock in this database. Parameter: the key of the lock.
SELECT EXISTS (
    SELECT FROM pg_locks AS l
    JOIN pg_database AS d ON d.oid = l.database
    WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted
        AND ((l.classid::bigint << 32) | l.objid::bigint) = %s
)
"""


class HeldLock:
    """A lock of this process, until ``release`` or until its database connection is lost."""

    def __init__(self, own: BaseDatabaseWrapper) -> None:
        self._own = own

    def release(self) -> None:
        with contextlib.suppress(Error):
            self._own.rollback()
        self._own.close()


def try_lock(name: str) -> HeldLock | None:
    """Return the lock, or None while another holder has it. Raises ``DatabaseError``."""
    lock = HeldLock(own_connection())
    try:
        lock._own.set_autocommit(False)  # noqa: SLF001 - of this module
        if _answer(lock._own, TRY_LOCK, [key(name)]):  # noqa: SLF001
            return lock
    except Error:
        lock.release()
        raise
    lock.release()
    return None


@contextlib.contextmanager
def try_exclusive(name: str) -> Iterator[bool]:
    """Yield whether the lock was free; where it was, it is held while the block runs."""
    lock = try_lock(name)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()


@contextlib.contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Wait for the lock and hold it while the block runs. Raises ``DatabaseError``."""
    while (lock := try_lock(name)) is None:
        time.sleep(RETRY_SECONDS)
    try:
        yield
    finally:
        lock.release()


def is_locked(name: str) -> bool:
    """Return whether any process holds the lock."""
    with connection.cursor() as cursor:
        cursor.execute(IS_LOCKED, [key(name)])
        return bool(cursor.fetchone()[0])


def key(name: str) -> int:
    """Return the signed 64 bits by which PostgreSQL knows the lock."""
    digest = hashlib.sha256(b"pdpp/turn/" + name.encode()).digest()
    return int.from_bytes(digest[:8], signed=True)


def own_connection() -> BaseDatabaseWrapper:
    """Return a connection outside the pool, for what holds one for long: requests must not wait."""
    own = connections.create_connection(DEFAULT_DB_ALIAS)
    options = {
        name: value for name, value in own.settings_dict["OPTIONS"].items() if name != "pool"
    }
    own.settings_dict = own.settings_dict | {"OPTIONS": options}
    own.inc_thread_sharing()
    return own


def _answer(own: BaseDatabaseWrapper, statement: str, values: list[int]) -> object:
    with own.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchone()[0]
