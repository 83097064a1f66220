"""What background jobs do; ``operations.jobs`` runs them.

A job finds the owners whose work is due with one statement, so that idle owners cost nothing, and
does one step of each owner in turn.
"""

import functools
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from evidence.access.grant_lifecycle import delete_old_requests
from evidence.access.owner_notices import (
    delete_old_refused_calls,
    owners_with_old_refused_calls,
)
from evidence.access.sql import SQL, fetch_all
from evidence.erasure import apply_retention, run_pending_erasures
from evidence.events.event_scheduler import delete_settled_events
from evidence.ledger.disclosures import recount_shown_records
from evidence.ledger.verification import owners_to_verify, verify_daily, write_daily
from evidence.models.owners import across_owners, current_owner, in_turn
from evidence.read.changes import delete_unused_bookmarks
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
from evidence.write.vectors import embed_missing, prepare_table
from operations.notifications.store import delete_old_notifications
from operations.postgres import server
from operations.postgres.server import EmbeddedPostgresError
from operations.session_store import SessionStore

logger = logging.getLogger(__name__)

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


def upkeep() -> Iterator[object]:
    """Prune expired rows, apply retention periods, and verify the ledger."""
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
        (lambda: owners_to_verify(now), lambda: _verify_ledger(now)),
    )
    for due, work in works:
        yield from in_turn(due, work)


def _verify_ledger(now: datetime) -> Iterator[object]:
    """Verify the ledger of an owner, and copy its heads out of the database."""
    owner_id = current_owner()
    if settings.PDPP_LEDGER_FOLDER:
        yield write_daily(Path(settings.PDPP_LEDGER_FOLDER), owner_id, now=now)
    yield from recount_shown_records(owner_id, now=now)
    yield verify_daily(owner_id, now=now)


def erasures() -> Iterator[object]:
    """Continue unfinished erasures."""
    work = partial(run_pending_erasures, now=timezone.now())
    yield from in_turn(erasing_owners, work, looks_again=True)


def restart_database(home: Path) -> None:
    """Restart the embedded PostgreSQL if it does not run."""
    if server.is_running(home):
        return
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
