"""Background jobs and the threads that run them repeatedly.

The names of the job functions are labels in metrics.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.utils import timezone

from evidence.access.owner_notices import delete_old_refused_calls
from evidence.access.permission_requests import delete_old_requests
from evidence.erasure import apply_retention, run_pending_erasures
from evidence.events.event_scheduler import (
    delete_settled_events,
    enqueue_events,
    has_enqueued_events,
    recover_lost_deliveries,
)
from evidence.ledger.checkpoints import create_checkpoint
from evidence.ledger.proof import verify_daily
from evidence.ledger.readings import recount_shown_records
from evidence.models.owners import get_or_create_owner
from evidence.read.bookmarks import delete_unused_bookmarks
from evidence.search.embedding import configured_embedder
from evidence.write import app_data
from evidence.write.reindex import outdated_connections, reindex
from evidence.write.retention import ORPHAN_AGE, prune_changes, prune_orphans
from evidence.write.vector_backfill import embed_missing
from evidence.write.vector_table import prepare_table
from operations import job_wakeups, leader_lock, metrics
from operations.notifications.store import delete_old_notifications
from operations.postgres import server
from operations.postgres.installation import EmbeddedPostgresError
from operations.session_store import SessionStore

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
"""Pause between two runs of a job, and so the delay until a new record has vectors."""

MAX_IDLE_SECONDS = 30.0
"""Longest pause of a job that found no work several times, unless a commit wakes it."""

WAKE_SECONDS = 1.0
"""Shortest time between the starts of two runs that commits wake."""

MAX_REST_SECONDS = 1.0
UPKEEP_SECONDS = 3_600.0
DATABASE_CHECK_SECONDS = 5.0

Job = Callable[[], Iterator[object]]
"""Does all pending work in steps; it can be stopped between two steps."""


def vectors() -> Iterator[int]:
    """Compute missing embeddings, if there is a model and pgvector."""
    embedder = configured_embedder()
    if embedder is not None and prepare_table(embedder):
        yield from embed_missing(embedder)


def words() -> Iterator[int]:
    """Rebuild outdated search text."""
    yield from with_rests(reindex(outdated_connections()))


def with_rests(steps: Iterable[int]) -> Iterator[int]:
    """Yield steps, and rest as long as each of them worked, so that requests come first."""
    started = time.monotonic()
    for count in steps:
        yield count
        time.sleep(min(time.monotonic() - started, MAX_REST_SECONDS))
        started = time.monotonic()


def events() -> Iterator[object]:
    """Enqueue due events for the workers."""
    yield from enqueue_events()


def lost_events() -> Iterator[object]:
    """Enqueue deliveries of killed workers again, as long as something is being delivered."""
    if has_enqueued_events():
        recover_lost_deliveries()
        yield True


def upkeep() -> Iterator[object]:
    """Prune expired rows, apply retention periods, and sign and verify the ledger."""
    now = timezone.now()
    yield from apply_retention(now=now)
    kept_since = now - timedelta(days=settings.PDPP_CHANGES_DAYS)
    yield prune_changes(kept_since=kept_since)
    yield delete_unused_bookmarks(unused_since=kept_since)
    yield app_data.delete_expired(now).total()
    yield SessionStore.clear_expired()
    yield delete_old_refused_calls(now) + delete_old_requests(now)
    yield prune_orphans(unused_since=now - ORPHAN_AGE)
    yield delete_settled_events(now=now)
    yield delete_old_notifications(now)
    owner_id = get_or_create_owner(now).owner_id
    yield create_checkpoint(owner_id, now=now)
    yield from recount_shown_records(owner_id, now=now)
    yield verify_daily(owner_id, now=now)


def erasures() -> Iterator[object]:
    """Continue unfinished erasures."""
    yield from run_pending_erasures(now=timezone.now())


def restart_database(home: Path) -> Job:
    """Return a job that restarts the embedded PostgreSQL if it does not run."""

    def database() -> Iterator[None]:
        if not server.is_running(home):
            _restart_database(home)
        yield

    return database


def _restart_database(home: Path) -> None:
    embedded = server.EmbeddedPostgres(home)
    try:
        embedded.start()
    except EmbeddedPostgresError:
        # The error's message ends with lines of the database log.
        logger.error("The embedded database does not start. See %s", home / "data/server.log")  # noqa: TRY400
    else:
        # Releases this use only; the process still uses the server.
        embedded.stop()
        logger.error("The embedded database died and was restarted.")


def always_allowed() -> bool:
    """Return True: a job that needs no leader may always run."""
    return True


@contextlib.contextmanager
def run_repeatedly(
    job: Job,
    *,
    pause: float = PAUSE_SECONDS,
    max_pause: float | None = None,
    may_run: Callable[[], bool] = always_allowed,
) -> Iterator[None]:
    """Run ``job`` repeatedly in a thread until the block ends, while ``may_run()`` is true.

    With ``max_pause``, the pause doubles up to it after each run that found nothing to do, and
    commits wake the job (``job_wakeups``).
    """
    loop = _Loop(job, pause, max_pause, may_run)
    thread = threading.Thread(target=loop.run, name="background")
    with contextlib.ExitStack() as stack:
        if max_pause is not None:
            stack.enter_context(job_wakeups.woken_by(loop.woken.set))
        thread.start()
        try:
            yield
        finally:
            loop.stopped.set()
            loop.woken.set()
            thread.join()


class _Loop:
    """The thread of one job."""

    def __init__(
        self, job: Job, pause: float, max_pause: float | None, may_run: Callable[[], bool]
    ) -> None:
        self._job, self._may_run = job, may_run
        self._min_pause = self._pause = pause
        self._max_pause = max_pause
        self._name = getattr(job, "__name__", "job")
        self.stopped, self.woken = threading.Event(), threading.Event()

    def run(self) -> None:
        while True:
            # In this order: stopping sets `stopped`, then `woken`, and clears nothing.
            self.woken.clear()
            if self.stopped.is_set():
                return
            started = time.monotonic()
            try:
                if not self._may_run():
                    self.stopped.wait(leader_lock.RETRY_SECONDS)
                    continue
                has_worked = self._run_once()
            except Exception as error:  # noqa: BLE001 - a failed job runs again
                has_worked = True
                # The error's text may quote a record.
                metrics.BACKGROUND_RUNS.labels(self._name, "failed").inc()
                logger.warning(
                    "background job %s failed; retrying: %s", self._name, type(error).__name__
                )
            finally:
                connection.close()
            self._rest(started, has_worked=has_worked)

    def _run_once(self) -> bool:
        """Run the job, and return whether it found something to do."""
        has_worked = False
        for step in self._job():
            has_worked = has_worked or bool(step)
            if self.stopped.is_set() or not self._may_run():
                break
        metrics.BACKGROUND_RUNS.labels(self._name, "succeeded").inc()
        metrics.BACKGROUND_SUCCESS.labels(self._name).set_to_current_time()
        return has_worked

    def _rest(self, started: float, *, has_worked: bool) -> None:
        if self._max_pause is None or has_worked:
            self._pause = self._min_pause
            self.stopped.wait(self._pause)
            return
        is_woken = job_wakeups.is_listening()
        self._pause = min(2 * self._pause, self._max_pause) if is_woken else self._min_pause
        if self.woken.wait(self._pause):
            self._pause = self._min_pause
            # Commits in quick succession wake the job once.
            self.stopped.wait(WAKE_SECONDS - (time.monotonic() - started))
