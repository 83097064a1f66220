"""Background jobs and the threads that run them repeatedly.

A job finds the owners whose work is due with one statement, so that idle owners cost nothing, and
does one step of each owner in turn.
"""

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.utils import timezone

from evidence.access.owner_notices import (
    delete_old_refused_calls,
    owners_with_old_refused_calls,
)
from evidence.access.permission_requests import delete_old_requests
from evidence.access.sql import SQL, fetch_all
from evidence.erasure import apply_retention, run_pending_erasures
from evidence.events.event_scheduler import (
    delete_settled_events,
    enqueue_events,
    has_enqueued_events,
    recover_lost_deliveries,
)
from evidence.ledger.anchors import write_daily
from evidence.ledger.checkpoints import create_checkpoint
from evidence.ledger.proof import owners_to_check, verify_daily
from evidence.ledger.readings import recount_shown_records
from evidence.models.owners import across_owners, current_owner, in_turn
from evidence.read.bookmarks import delete_unused_bookmarks
from evidence.search.embedding import configured_embedder
from evidence.write import app_data
from evidence.write.erasure_orders import erasing_owners
from evidence.write.reindex import outdated_connections, outdated_owners, reindex
from evidence.write.retention import (
    ORPHAN_AGE,
    owners_with_blobs,
    owners_with_old_changes,
    owners_with_retention,
    prune_changes,
    prune_orphans,
)
from evidence.write.vector_backfill import embed_missing
from evidence.write.vector_table import prepare_table
from operations import job_wakeups, leader_lock
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

FindOwners = Callable[[], Iterable[str]]
Job = Callable[[], Iterator[object]]
"""Does all pending work in steps; it can be stopped between two steps."""


FINGERPRINT_OWNERS = """
-- Return a digest per owner of what derived data depends on. One query across owners.
SELECT c.owner_id, md5(string_agg(
    concat_ws(' ', c.connection_id, c.status, c.change_seq, c.pruned_seq, c.indexed_analyser,
        c.languages, c.identities, s.current_declaration_id, o.country),
    ',' ORDER BY c.connection_id
))
FROM evidence_connection AS c
JOIN evidence_source AS s ON s.owner_id = c.owner_id AND s.id = c.source_id
JOIN evidence_owner AS o ON o.owner_id = c.owner_id
GROUP BY c.owner_id
"""
FORGET_SECONDS = 86_400.0
"""Time after which a job looks at every owner again."""


def for_changed_owners(work: Job) -> Job:
    """Return a job that does ``work`` for the owners whose data changed since it was done for them.

    The process remembers that, for a day.
    """
    done: dict[str, str] = {}
    forgotten_at = time.monotonic()

    @functools.wraps(work)
    def job() -> Iterator[object]:
        nonlocal forgotten_at
        if time.monotonic() - forgotten_at > FORGET_SECONDS:
            done.clear()
            forgotten_at = time.monotonic()
        found: dict[str, str] = {}

        def due() -> list[str]:
            found.update(fetch_all(SQL(FINGERPRINT_OWNERS)))
            return [owner_id for owner_id in found if done.get(owner_id) != found[owner_id]]

        def work_and_note() -> Iterator[object]:
            fingerprint = found[current_owner()]
            yield from work()
            done[current_owner()] = fingerprint

        yield from in_turn(due, work_and_note, looks_again=True)

    return job


def vectors() -> Iterator[int]:
    """Compute the missing embeddings of an owner, if there is a model and pgvector."""
    embedder = configured_embedder()
    if embedder is not None and prepare_table(embedder):
        yield from embed_missing(embedder)


def words() -> Iterator[int]:
    """Rebuild outdated search text."""
    yield from in_turn(
        outdated_owners, lambda: with_rests(reindex(outdated_connections())), looks_again=True
    )


def with_rests(steps: Iterable[int]) -> Iterator[int]:
    """Yield steps, and rest as long as each of them worked, so that requests come first."""
    started = time.monotonic()
    for count in steps:
        time.sleep(min(time.monotonic() - started, MAX_REST_SECONDS))
        yield count
        started = time.monotonic()


def events() -> Iterator[object]:
    """Enqueue due events for the workers."""
    yield from enqueue_events()


def lost_events() -> Iterator[object]:
    """Enqueue deliveries of killed workers again, as long as something is being delivered."""
    with across_owners():
        is_delivering = has_enqueued_events()
        if is_delivering:
            recover_lost_deliveries()
    if is_delivering:
        yield True


def upkeep() -> Iterator[object]:
    """Prune expired rows, apply retention periods, and sign and verify the ledger."""
    now = timezone.now()
    kept_since = now - timedelta(days=settings.PDPP_CHANGES_DAYS)
    with across_owners():
        deleted = (
            delete_unused_bookmarks(unused_since=kept_since),
            app_data.delete_expired(now).total(),
            delete_old_requests(now),
            delete_settled_events(now=now),
            delete_old_notifications(now),
        )
        SessionStore.clear_expired()
    yield sum(deleted)
    works: tuple[tuple[FindOwners, Callable[[], Iterable[object]]], ...] = (
        (owners_with_retention, lambda: apply_retention(now=now)),
        (
            lambda: owners_with_old_changes(kept_since),
            lambda: [prune_changes(kept_since=kept_since)],
        ),
        (owners_with_blobs, lambda: [prune_orphans(unused_since=now - ORPHAN_AGE)]),
        (lambda: owners_with_old_refused_calls(now), lambda: [delete_old_refused_calls(now)]),
        (lambda: owners_to_check(now), lambda: _keep_ledger(now)),
    )
    for due, work in works:
        yield from in_turn(due, work)


def _keep_ledger(now: datetime) -> Iterator[object]:
    """Sign and verify the ledger of an owner, and copy its heads out of the database."""
    owner_id = current_owner()
    yield create_checkpoint(owner_id, now=now)
    if settings.PDPP_LEDGER_FOLDER:
        yield write_daily(Path(settings.PDPP_LEDGER_FOLDER), owner_id, now=now)
    yield from recount_shown_records(owner_id, now=now)
    yield verify_daily(owner_id, now=now)


def erasures() -> Iterator[object]:
    """Continue unfinished erasures."""
    work = partial(run_pending_erasures, now=timezone.now())
    yield from in_turn(erasing_owners, work, looks_again=True)


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
