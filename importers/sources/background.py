"""Read the accounts that are due, a few at a time."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from django.db import close_old_connections
from django.utils import timezone

from evidence.models.owners import acting_for
from importers.sources.account_store import AccountKey, DueAccount, due_accounts
from importers.sources.runner import sync

MAX_RUNS = 4
"""Accounts that are read at once."""

MAX_FIRST_RUNS = 2
"""Accounts that are read for the first time at once. They take long, and a processor each."""

WAIT_SECONDS = 1.0
RETRY_SECONDS = 30.0

logger = logging.getLogger(__name__)


class SyncWorker:
    """Reads accounts in threads; ``close`` stops the runs at their next batch."""

    def __init__(self) -> None:
        self._closed = threading.Event()
        self._running: dict[AccountKey, Future[None]] = {}
        self._first: set[AccountKey] = set()
        self._pool = ThreadPoolExecutor(MAX_RUNS, thread_name_prefix="sync")

    def sources(self) -> Iterator[object]:
        """Start the runs that are due, and wait for one of them to end."""
        self._running = {pk: each for pk, each in self._running.items() if not each.done()}
        self._first &= self._running.keys()
        if free := MAX_RUNS - len(self._running):
            for account in due_accounts(
                now=timezone.now(),
                running=self._running,
                most=free,
                with_first=len(self._first) < MAX_FIRST_RUNS,
            ):
                if self._has_room(account):
                    self._running[account.key] = self._pool.submit(self._run, account.key)
        if self._running:
            wait(self._running.values(), timeout=WAIT_SECONDS, return_when=FIRST_COMPLETED)
        yield len(self._running)

    def _has_room(self, account: DueAccount) -> bool:
        """Return whether this account can be read now. Notes which are read for the first time."""
        if account.is_first and len(self._first) == MAX_FIRST_RUNS:
            return False
        if account.is_first:
            self._first.add(account.key)
        return True

    def close(self) -> None:
        self._closed.set()
        self._pool.shutdown()

    def _run(self, key: AccountKey) -> None:
        try:
            with acting_for(key.owner_id):
                sync(key.connection_id, owner_id=key.owner_id, is_stopped=self._closed.is_set)
        except Exception as error:  # noqa: BLE001 - it is due again, and may quote a record
            logger.warning("a sync failed; retrying: %s", type(error).__name__)
            self._closed.wait(RETRY_SECONDS)
        finally:
            close_old_connections()
