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

from evidence.access import sign_in_throttle
from evidence.access.owner_notices import delete_old_refused_calls
from evidence.access.permission_requests import delete_old_requests
from evidence.erasure import apply_retention, run_pending_erasures
from evidence.events.event_scheduler import delete_settled_events, enqueue_events
from evidence.events.tasks import recover_lost_deliveries
from evidence.ledger.checkpoints import create_checkpoint
from evidence.ledger.proof import verify_daily
from evidence.ledger.shown_records import recount_shown_records
from evidence.models.accounts import get_or_create_owner
from evidence.reading.bookmarks import delete_unused_bookmarks
from evidence.search.embedding import configured_embedder
from evidence.storing.notifications import delete_old_notifications
from evidence.storing.reindex import outdated_connections, reindex
from evidence.storing.retention import ORPHAN_AGE, prune_changes, prune_orphans
from evidence.storing.vector_backfill import embed_missing
from evidence.storing.vector_table import prepare_table
from operations import leader_lock, metrics
from operations.postgres import server
from operations.postgres.system_account import EmbeddedPostgresError
from operations.session_store import SessionStore

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
"""Pause between two runs of a job, and so the delay until a new record has vectors."""

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
    """Enqueue deliveries of killed workers again."""
    yield recover_lost_deliveries()


def upkeep() -> Iterator[object]:
    """Prune expired rows, apply retention periods, and sign and verify the ledger."""
    now = timezone.now()
    yield from apply_retention(now=now)
    kept_since = now - timedelta(days=settings.PDPP_CHANGES_DAYS)
    yield prune_changes(kept_since=kept_since)
    yield delete_unused_bookmarks(unused_since=kept_since)
    yield sign_in_throttle.delete_expired(now=now)
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
    job: Job, *, pause: float = PAUSE_SECONDS, may_run: Callable[[], bool] = always_allowed
) -> Iterator[None]:
    """Run ``job`` repeatedly in a thread until the block ends, while ``may_run()`` is true."""
    stop = threading.Event()
    thread = threading.Thread(target=_loop, args=(job, stop, pause, may_run), name="background")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _loop(job: Job, stop: threading.Event, pause: float, may_run: Callable[[], bool]) -> None:
    name = getattr(job, "__name__", "job")
    while not stop.is_set():
        try:
            if not may_run():
                stop.wait(leader_lock.RETRY_SECONDS)
                continue
            for _ in job():
                if stop.is_set() or not may_run():
                    break
            metrics.BACKGROUND_RUNS.labels(name, "succeeded").inc()
            metrics.BACKGROUND_SUCCESS.labels(name).set_to_current_time()
        except Exception as error:  # noqa: BLE001 - a failed job runs again
            # The error's text may quote a record.
            metrics.BACKGROUND_RUNS.labels(name, "failed").inc()
            logger.warning("background job %s failed; retrying: %s", name, type(error).__name__)
        finally:
            connection.close()
        stop.wait(pause)
