"""Run the source of one account: read, store with the new state, and record the outcome.

``read_accounts`` reads those that are due, a few at a time.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import close_old_connections
from django.utils import timezone

from evidence.advisory_locks import try_exclusive
from evidence.errors import ApiException
from evidence.models.owners import acting_for, current_owner
from evidence.write import stored_keys
from evidence.write.ndjson import Receipt
from evidence.write.ndjson import ReceiptCode as RejectionCode
from evidence.write.reindex import IndexMaintenance
from evidence.write.sealed_values import SealedError
from importers.core.results import ReceiptCode, without_repeated
from importers.core.source import InstalledSource, ProblemCode, SourceError
from importers.core.source_process import AccountAccess, SourceSession, Step, open_source
from importers.models import SourceAccount
from importers.registry import find_source
from importers.runs.record_feed import AttachmentSpool, declares_files, store_files
from importers.sources import account_store, oauth
from importers.sources.account_store import (
    AccountKey,
    DueAccount,
    RunReport,
    due_accounts,
    finish_run,
    is_limit_reached,
    next_day,
    set_due,
    traffic_with,
)
from importers.sources.sync_batch import SeenItem, SyncBatch, SyncStopped, known_items, store_batch

RUN_SECONDS = 240.0
"""A run ends at the next state after this time, and is due again at once: other accounts wait."""

BATCH_ITEMS = 400
BATCH_BYTES = 4 * 1024 * 1024
BATCH_SECONDS = 2.0

MAX_RUNS = 4
"""Accounts that are read at once."""
MAX_FIRST_RUNS = 2
"""Accounts that are read for the first time at once. They take long, and a processor each."""
WAIT_SECONDS = 1.0
RETRY_SECONDS = 30.0

logger = logging.getLogger(__name__)

OnProgress = Callable[[int, int], object]


@dataclass(slots=True)
class _Pending:
    """Steps that are stored together; ``size`` is that of their files and records."""

    batch: SyncBatch = field(default_factory=SyncBatch)
    locations: dict[str, str] = field(default_factory=dict)
    size: int = 0
    received: int = 0
    since: float = field(default_factory=time.monotonic)

    @property
    def is_due(self) -> bool:
        is_late = time.monotonic() - self.since >= BATCH_SECONDS
        return is_late or len(self.batch.seen) >= BATCH_ITEMS or self.size >= BATCH_BYTES


def lock_name(connection_id: str) -> str:
    """Return the name of the lock that a run of this connection of the current owner holds."""
    return f"sync {current_owner()} {connection_id}"


def sync(
    connection_id: str,
    *,
    owner_id: str,
    is_stopped: Callable[[], bool] = lambda: False,
    on_progress: OnProgress = lambda _done, _total: None,
) -> RunReport | None:
    """Run the source of a connection once, and save the outcome.

    Returns None if another process runs it, or if the owner paused it. Problems are saved for the
    owner's pages and not raised.
    """
    with try_exclusive(lock_name(connection_id)) as is_free:
        account = account_store.find_account(connection_id, owner_id=owner_id)
        if not is_free or account is None:
            return None
        now = timezone.now()
        if is_limit_reached(account, now=now):
            set_due(connection_id, next_day(now))
            return RunReport(now.isoformat())
        run = _AccountRun(account, is_stopped, on_progress)
        failure = None
        try:
            run.run()
        except SyncStopped as stopped:
            logger.info("a sync of %s was stopped: %s", connection_id, stopped)
            return None
        except SourceError as error:
            if is_stopped():
                return None
            if error.code is ProblemCode.TOKEN_REFUSED:
                oauth.discard_access_token(account)
            failure = error
        except ApiException:  # the log names the cause
            failure = SourceError(ProblemCode.STORAGE_FAILED)
        finish_run(account, run.report, run.stopped_at, failure)
        return run.report


def open_account(account: SourceAccount) -> tuple[InstalledSource, AccountAccess]:
    """Return the source of an account and what it gets. Raises ``SourceError``."""
    source = find_source(account.source_name)
    if source is None:
        raise SourceError(ProblemCode.SOURCE_MISSING, account.source_name)
    try:
        credential = oauth.current_credential(account)
    except SealedError:
        raise SourceError(ProblemCode.CREDENTIAL_UNREADABLE) from None
    return source, AccountAccess(
        settings=account.settings,
        credential=oauth.sandbox_credential(account.settings, credential),
        state=account.state,
        now=timezone.now().isoformat(),
        skip=(account.problem or {}).get("skip", []),
    )


class _AccountRun:
    """One run. Each batch of steps is stored in one transaction with its last state."""

    def __init__(
        self, account: SourceAccount, is_stopped: Callable[[], bool], on_progress: OnProgress
    ) -> None:
        self._account = account
        self._is_stopped = is_stopped
        self._on_progress = on_progress
        self._now = timezone.now()
        self._spool = AttachmentSpool()  # run() closes it
        self._maintenance = IndexMaintenance()
        self._started = time.monotonic()
        self.report = RunReport(self._now.isoformat())
        self.stopped_at: list[str] | None = None
        self._reported: set[ReceiptCode] = set()

    def run(self) -> None:
        try:
            source, access = open_account(self._account)
            with open_source(source, access, is_stopped=self._is_stopped) as session:
                try:
                    self._store_steps(session, source)
                except SourceError:
                    self.stopped_at = session.started
                    raise
        finally:
            self._spool.close()
            self._maintenance.finish()

    def _store_steps(self, session: SourceSession, source: InstalledSource) -> None:
        pending, pk = _Pending(), self._account.connection_id

        def known(container: str, refs: Any) -> list[tuple[str, str]]:
            nonlocal pending
            pending = self._store(pending, source)  # what was read before counts as known
            return known_items(pk, container, refs)

        series_keys = partial(stored_keys.first_of_series, pk, source.series_stream)
        for step in session.steps(known, series_keys):
            self._add(pending, step, session, source)
            self.report.is_complete = step.ends_pass
            self.report.skipped = step.skipped
            is_limit = is_limit_reached(self._account, now=timezone.now(), more=pending.received)
            if pending.is_due or step.ends_pass or is_limit:
                pending = self._store(pending, source)
                self._on_progress(step.done, step.total)
                if self._is_stopped():
                    raise SyncStopped("the server stops")
                if is_limit or time.monotonic() - self._started >= RUN_SECONDS:
                    return

    def _add(
        self, pending: _Pending, step: Step, session: SourceSession, source: InstalledSource
    ) -> None:
        """Receive a step completely."""
        batch = pending.batch
        batch.state, batch.ends_pass = step.state, step.ends_pass
        batch.changes += step.changes
        batch.gone += step.gone
        self.report.done, self.report.total = step.done, step.total
        for item, (container, ref, mark) in zip(step.items, step.seen, strict=True):
            pending.received += item.size
            location = f"{item.file} {item.location}".strip()
            for issue in without_repeated(item.issues, self._reported):
                self.report.note(location, issue.code, issue.detail)
            for file in item.files:
                offset = self._spool.write(file.size, item.read)
                self._spool.put(0, file, offset)
                pending.size += file.size
            for record in item.records:
                batch.records.append((record, session.read(record.size)))
                pending.locations[record.key] = location
                pending.size += record.size
            stream, key = ("", "")
            if item.records:
                stream = item.records[0].stream
                key = source.item_key(stream, item.records[0].key)
            batch.outdated += item.stale
            batch.seen.append(SeenItem(container, ref, mark, stream, key))
        self._spool.release()

    def _store(self, pending: _Pending, source: InstalledSource) -> _Pending:
        """Store what is pending, and return what is pending then: nothing."""
        if not pending.batch.state and not pending.batch.seen:
            return _Pending()

        def on_rejected(key: str, receipt: Receipt) -> None:
            is_erased = receipt.code is RejectionCode.SUPPRESSED
            code = ReceiptCode.ERASED if is_erased else ReceiptCode.NOT_STORED
            detail = "" if is_erased else " ".join(filter(None, (receipt.code, receipt.path)))
            self.report.note(pending.locations.get(key, ""), code, detail)

        now = timezone.now()
        pending.batch.traffic = traffic_with(self._account, pending.received, now=now)
        result = store_batch(
            self._account,
            pending.batch,
            source,
            now=now,
            store_files=partial(self._store_files, source.declaration),
            on_rejected=on_rejected,
        )
        self.report.add(result)
        self._maintenance.note(result.written, [self._account.connection_id])
        self._spool.truncate()
        return _Pending()

    def _store_files(self, declaration: bytes, rejected: frozenset[str]) -> None:
        files = [file for file in self._spool.take(up_to=0) if file.key not in rejected]
        stored = store_files(
            self._spool, files, connection_id=self._account.connection_id, now=self._now
        )
        self.report.files += sum(declares_files(declaration, file.stream) for file in stored)


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
