"""Taking turns among all processes on one database.

A turn is an advisory lock that a transaction holds, open for as long as the turn lasts: that survives
PgBouncer in transaction mode, where a lock of a session would stay behind on a connection lent to
somebody else, and it ends with its process, however that ends. The transaction has read nothing and
written nothing, so nobody waits for it and no old row is kept for it.
"""

import contextlib
import hashlib
import logging
import threading
import time
from collections.abc import Iterator

from django.db import DEFAULT_DB_ALIAS, Error, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger(__name__)

# Asked again and again and never waited for: a statement that waits is older than an index that is
# being built concurrently, which would wait for it in turn.
TAKE = "SELECT pg_try_advisory_xact_lock(%s)"
STILL_THERE = "SELECT 1"
IS_TAKEN = """
SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted
        AND ((l.classid::bigint << 32) | l.objid::bigint) = %s)
"""
BACKGROUND = "background work"
"""The turn of whoever does what goes on beside requests."""
ASK_SECONDS = 2.0


class Turn:
    """Whether this process is the one that does something; any thread may ask."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._held: BaseDatabaseWrapper | None = None
        self._asked_at = float("-inf")

    def is_ours(self) -> bool:
        """A statement every two seconds at most. A turn that is lost unnoticed, with its connection,
        may be taken by another process while this one still believes in it for as long."""
        with self._lock:
            if time.monotonic() - self._asked_at >= ASK_SECONDS:
                self._ask()
                self._asked_at = time.monotonic()
            return self._held is not None

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _ask(self) -> None:
        if self._held is not None:
            try:
                _answer(self._held, STILL_THERE, [])
            except Error:
                self._let_go()
        if self._held is None:
            self._held = _taken(_key(self._name))
            if self._held is not None:
                logger.info("the turn for %s is taken by this process", self._name)

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            _end(held)


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Waits for its turn; raises ``DatabaseError`` where there is no database."""
    while (held := _taken(_key(name), quiet=False)) is None:
        time.sleep(ASK_SECONDS / 10)
    try:
        yield
    finally:
        _end(held)


def is_taken(name: str) -> bool:
    """Whether it is anybody's turn, of whatever process."""
    with connection.cursor() as cursor:
        cursor.execute(IS_TAKEN, [_key(name)])
        return bool(cursor.fetchone()[0])


def _taken(key: int, *, quiet: bool = True) -> BaseDatabaseWrapper | None:
    """A connection whose open transaction holds the lock, None where another's does."""
    own = _connection()
    try:
        own.set_autocommit(False)
        if _answer(own, TAKE, [key]):
            return own
    except Error:
        if not quiet:
            raise
    _end(own)
    return None


def _connection() -> BaseDatabaseWrapper:
    """One beside the pool: it is kept for long, and requests shall not wait for it."""
    own = connections.create_connection(DEFAULT_DB_ALIAS)
    options = {
        name: value for name, value in own.settings_dict["OPTIONS"].items() if name != "pool"
    }
    own.settings_dict = own.settings_dict | {"OPTIONS": options}
    own.inc_thread_sharing()
    return own


def _answer(own: BaseDatabaseWrapper, question: str, values: list[int]) -> object:
    with own.cursor() as cursor:
        cursor.execute(question, values)
        return cursor.fetchone()[0]


def _end(own: BaseDatabaseWrapper) -> None:
    with contextlib.suppress(Error):
        own.rollback()
    own.close()


def _key(name: str) -> int:
    """64 bits with a sign, as PostgreSQL has them."""
    digest = hashlib.sha256(b"pdpp/turn/" + name.encode()).digest()
    return int.from_bytes(digest[:8], signed=True)
