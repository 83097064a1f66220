"""Leader election among server processes that share a database.

A leader holds the advisory lock of a job (``evidence.advisory_locks``).
"""

import logging
import threading
import time

from django.db import Error

from evidence import advisory_locks
from evidence.advisory_locks import HeldLock

logger = logging.getLogger(__name__)

BACKGROUND_JOBS = "background work"
RETRY_SECONDS = 2.0
"""Time between attempts to become the leader, and between checks of the leader's lock."""


class LeaderLock:
    """Elects one process to do a job. Thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._lock: HeldLock | None = None
        self._checked_at = float("-inf")

    def is_leader(self) -> bool:
        """Return whether this process leads. Runs at most one query every RETRY_SECONDS.

        After a lost connection, two processes can both believe that they lead for that time.
        """
        with self._guard:
            if time.monotonic() - self._checked_at >= RETRY_SECONDS:
                self._check()
                self._checked_at = time.monotonic()
            return self._lock is not None

    def close(self) -> None:
        with self._guard:
            self._release()

    def _check(self) -> None:
        if self._lock is not None and not self._lock.is_held():
            self._release()
        if self._lock is None:
            self._lock = _try_lock(self._name)
            if self._lock is not None:
                logger.info("this process is now the leader for %s", self._name)

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


def _try_lock(name: str) -> HeldLock | None:
    """Return the lock, or None if another process holds it or the database does not respond."""
    try:
        return advisory_locks.try_lock(name)
    except Error:
        return None
