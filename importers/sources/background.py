"""Read the accounts that are due, a few at a time, and watch those whose servers report changes."""

import logging
import random
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import timedelta

from django.db import close_old_connections
from django.utils import timezone

from evidence.models.owners import acting_for
from importers.core.source import SourceError
from importers.core.watch_process import WatchProcess, WatchSession
from importers.sources.account_store import (
    AccountKey,
    DueAccount,
    WatchedAccount,
    due_accounts,
    get_account,
    postpone_unchanged,
    sync_now,
    watched_accounts,
)
from importers.sources.registry import installed_sources
from importers.sources.runner import open_account, sync

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


CHECK_SECONDS = 15.0
"""Time until an account that was connected, paused or changed is watched or not."""

MAX_WATCHES = 60
"""Accounts to watch; the others are read every few minutes. Each takes three files of the sandbox."""

JOIN_SECONDS = 2.0

FIRST_DELAY = timedelta(seconds=5)
MAX_DELAY = timedelta(hours=1)
STEADY_SECONDS = 60.0
"""A watch that lasted this long did not fail: the next one starts after the first delay."""

BURST, BURST_SECONDS = 30, 300.0
"""An account that changes more often than this is read at intervals of ``BUSY_SECONDS``."""
PAUSE_SECONDS, BUSY_SECONDS = 1.0, 15.0

logger = logging.getLogger(__name__)


class AccountWatches:
    """Keeps a thread for each account that waits for its server."""

    def __init__(self, *, may_run: Callable[[], bool]) -> None:
        self._may_run = may_run
        self._sources = {each.name: each for each in installed_sources() if each.watches}
        self._processes: dict[str, WatchProcess] = defaultdict(WatchProcess)
        """By package: packages are kept from each other."""
        self._watches: dict[AccountKey, _Watch] = {}

    def watches(self) -> Iterator[object]:
        """Start and end watches. The name is a label in metrics."""
        wanted = self._wanted() if self._may_run() else {}
        for key, watch in list(self._watches.items()):
            if watch.account != wanted.get(key):
                self._watches.pop(key).stop()
        for key, account in wanted.items():
            if key not in self._watches:
                package = self._sources[account.source_name].package
                self._watches[key] = _Watch(account, self._processes[package])
        yield len(self._watches)

    def _wanted(self) -> dict[AccountKey, WatchedAccount]:
        accounts = watched_accounts(self._sources, most=MAX_WATCHES)
        return {each.key: each for each in accounts}

    def close(self) -> None:
        for watch in self._watches.values():
            watch.stop()
        for watch in self._watches.values():
            watch.thread.join(JOIN_SECONDS)
        for process in self._processes.values():
            process.close()


class _Watch:
    """The thread of one account."""

    def __init__(self, account: WatchedAccount, process: WatchProcess) -> None:
        self.account = account
        self._process = process
        self._session: WatchSession | None = None
        self._stopped = threading.Event()
        self._reported: deque[float] = deque(maxlen=BURST)
        self.thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._session is not None:
            self._session.close()

    def _run(self) -> None:
        with acting_for(self.account.key.owner_id):
            self._watch()

    def _watch(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            started = time.monotonic()
            try:
                self._report_changes()
                failures = 10  # the server cannot report changes, or no longer
            except SourceError as error:
                if self._stopped.is_set():
                    return
                failures = 0 if time.monotonic() - started > STEADY_SECONDS else failures
                logger.info("a watch of %s ended: %s", self.account.key.connection_id, error.code)
            except Exception as error:  # noqa: BLE001 - it starts again, and may quote a secret
                logger.warning("a watch failed; retrying: %s", type(error).__name__)
            finally:
                close_old_connections()
            delay = min(MAX_DELAY, FIRST_DELAY * 2 ** min(failures, 10)).total_seconds()
            failures += 1
            self._stopped.wait(delay * random.uniform(0.5, 1.5))  # noqa: S311 - no secret

    def _report_changes(self) -> None:
        """Have the account read at each change. Raises ``SourceError``."""
        source, access = open_account(get_account(self.account.key.connection_id))
        with self._process.open(source, access) as session:
            self._session = session
            if self._stopped.is_set():
                return
            for is_changed in session.changes():
                pk, now = self.account.key.connection_id, timezone.now()
                if is_changed:
                    sync_now(pk, now=now)
                else:
                    postpone_unchanged(pk, now + source.interval, now=now)
                close_old_connections()
                self._stopped.wait(self._pause() if is_changed else 0)

    def _pause(self) -> float:
        now = time.monotonic()
        self._reported.append(now)
        is_busy = len(self._reported) == BURST and now - self._reported[0] < BURST_SECONDS
        return BUSY_SECONDS if is_busy else PAUSE_SECONDS
