"""Read the accounts that are due, a few at a time."""

import logging
import threading
from collections.abc import Collection, Iterator
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


def read_accounts() -> Iterator[object]:
    """Read the accounts that are due, until none is. Owners take turns.

    At the end of the generator, runs stop at their next batch.
    """
    stopped = threading.Event()
    running: dict[AccountKey, Future[None]] = {}
    first: set[AccountKey] = set()
    with ThreadPoolExecutor(MAX_RUNS, thread_name_prefix="sync") as pool:
        try:
            while True:
                running = {key: each for key, each in running.items() if not each.done()}
                first &= running.keys()
                for account in _startable(running, len(first)):
                    running[account.key] = pool.submit(_run, account.key, stopped)
                    first |= {account.key} if account.is_first else set()
                if not running:
                    return
                wait(running.values(), timeout=WAIT_SECONDS, return_when=FIRST_COMPLETED)
                yield len(running)
        finally:
            stopped.set()


def _startable(running: Collection[AccountKey], first: int) -> Iterator[DueAccount]:
    """Yield due accounts that may be read beside those that run; ``first`` run for the first time."""
    if len(running) == MAX_RUNS:
        return
    for account in due_accounts(
        now=timezone.now(),
        running=running,
        most=MAX_RUNS - len(running),
        with_first=first < MAX_FIRST_RUNS,
    ):
        first += account.is_first
        if first <= MAX_FIRST_RUNS or not account.is_first:
            yield account


def _run(key: AccountKey, stopped: threading.Event) -> None:
    try:
        with acting_for(key.owner_id):
            sync(key.connection_id, owner_id=key.owner_id, is_stopped=stopped.is_set)
    except Exception as error:  # noqa: BLE001 - it is due again, and may quote a record
        logger.warning("a sync failed; retrying: %s", type(error).__name__)
        stopped.wait(RETRY_SECONDS)
    finally:
        close_old_connections()
