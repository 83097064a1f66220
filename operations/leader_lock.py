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

BACKGROUND = "background work"
"""The lock of the process that does what goes on beside requests."""
ASK_SECONDS = 2.0


class Turn:
    """Whether this process is the one that does something; any thread may ask."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._guard = threading.Lock()
        self._held: HeldLock | None = None
        self._asked_at = float("-inf")

    def is_ours(self) -> bool:
        """Return whether this process is the leader. Runs at most one query every ``ASK_SECONDS``.

        After a lost connection, two processes can both believe that they lead for that long.
        """
        with self._guard:
            if time.monotonic() - self._asked_at >= ASK_SECONDS:
                self._ask()
                self._asked_at = time.monotonic()
            return self._held is not None

    def close(self) -> None:
        with self._guard:
            self._let_go()

    def _ask(self) -> None:
        if self._held is not None and not self._held.is_held():
            self._let_go()
        if self._held is None:
            self._held = _taken(self._name)
            if self._held is not None:
                logger.info("the turn for %s is taken by this process", self._name)

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.release()


def _taken(name: str) -> HeldLock | None:
    """The lock; None where another process has it, or where the database does not answer."""
    try:
        return advisory_locks.try_lock(name)
    except Error:
        return None
