"""What goes on beside requests, in a thread of the process that serves them."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from django.conf import settings
from django.db import connection
from django.utils import timezone

from evidence.access import sign_in_throttle
from evidence.access.owner_notices import forget_refused
from evidence.erasure import go_on_with_all, retain
from evidence.events.event_scheduler import announce, forget_settled
from evidence.events.tasks import forget_lost
from evidence.ledger.checkpoints import checkpoint
from evidence.models.accounts import the_owner
from evidence.reading.bookmarks import forget_bookmarks
from evidence.search.embedding import chosen
from evidence.storing.reindex import pending, reindex
from evidence.storing.retention import ORPHAN_AGE, prune_changes, prune_orphans
from evidence.storing.vector_backfill import embed_missing
from evidence.storing.vector_table import prepare
from operations import leader_lock, metrics
from operations.session_store import SessionStore

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
"""So long after its last words a record may be found by its meaning, when little else comes in."""

LONGEST_REST_SECONDS = 1.0
UPKEEP_SECONDS = 3_600.0

Job = Callable[[], Iterator[object]]
"""Does what there is to do, a piece at a time: between two pieces it can be stopped."""


def vectors() -> Iterator[int]:
    """Vectors for whatever has none, where there is a model and a place for them."""
    embedder = chosen()
    if embedder is not None and prepare(embedder):
        yield from embed_missing(embedder)


def words() -> Iterator[int]:
    """Search text anew where languages or the analyser have changed, also by another process.

    It rests as long as it works, so that requests come first.
    """
    began = time.monotonic()
    for count in reindex(pending()):
        yield count
        time.sleep(min(time.monotonic() - began, LONGEST_REST_SECONDS))
        began = time.monotonic()


def events() -> Iterator[object]:
    """What subscribers have to be told, handed to whatever workers there are."""
    yield from announce()


def lost_events() -> Iterator[object]:
    """What workers that were killed have left behind."""
    yield forget_lost()


def upkeep() -> Iterator[object]:
    """What ``manage.py prune`` does, what is older than it is kept, and a signature under all chain
    ends of the ledger."""
    now = timezone.now()
    yield from retain(now=now)
    kept_since = now - timedelta(days=settings.PDPP_CHANGES_DAYS)
    yield prune_changes(kept_since=kept_since)
    yield forget_bookmarks(unused_since=kept_since)
    yield sign_in_throttle.forget(now=now)
    yield SessionStore.clear_expired()
    yield forget_refused(now)
    yield prune_orphans(unused_since=now - ORPHAN_AGE)
    yield forget_settled(now=now)
    yield checkpoint(the_owner(now).owner_id, now=now)


def erasures() -> Iterator[object]:
    """What the owner wants erased and is not gone yet, also what another process left."""
    yield from go_on_with_all(now=timezone.now())


def always() -> bool:
    """Whose turn it is where there is but one."""
    return True


@contextlib.contextmanager
def going_on(
    job: Job, *, pause: float = PAUSE_SECONDS, may: Callable[[], bool] = always
) -> Iterator[None]:
    """Does ``job`` again and again for as long as the block runs, and while it ``may``."""
    stop = threading.Event()
    thread = threading.Thread(target=_again, args=(job, stop, pause, may), name="background")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _again(job: Job, stop: threading.Event, pause: float, may: Callable[[], bool]) -> None:
    name = getattr(job, "__name__", "job")
    while not stop.is_set():
        try:
            if not may():
                stop.wait(leader_lock.ASK_SECONDS)
                continue
            for _ in job():
                if stop.is_set() or not may():
                    break
            metrics.BACKGROUND.labels(name, "succeeded").inc()
            metrics.SUCCEEDED.labels(name).set_to_current_time()
        except Exception as error:  # noqa: BLE001 - no failure ends this work for good
            # Without its text, which may quote a record.
            metrics.BACKGROUND.labels(name, "failed").inc()
            logger.warning("background work failed and goes on later: %s", type(error).__name__)
        finally:
            connection.close()
        stop.wait(pause)
