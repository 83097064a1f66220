"""Whether this installation can serve: the database answers, and its tables are today's. And whether
what goes on beside requests does go on."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from evidence import advisory_locks
from evidence.events import event_scheduler
from evidence.storing import erasure_orders, uploads
from operations import leader_lock

NOBODY = "This server leaves the work beside requests to others, and no other does it just now."
WAITS = "Some of the work beside requests has waited since {since:%Y-%m-%d %H:%M} UTC."
LONG = timedelta(hours=1)
"""Nothing waits so long where somebody is at work, but for what is behind something very large."""


def unready() -> str | None:
    """Why requests cannot be served now, or None. Two queries; opens a connection and returns it.

    The reason is public, so it names no host, user or table.
    """
    try:
        executor = MigrationExecutor(connection)
        behind = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Error:
        return "The database does not answer."
    finally:
        connection.close()
    return f"{len(behind)} migrations have not been applied." if behind else None


def idle(now: datetime) -> str | None:
    """What is not done although it should be, or None. Three queries at most; as public as why
    requests cannot be served."""
    try:
        nobody = not settings.PDPP_BACKGROUND and not advisory_locks.is_locked(
            leader_lock.BACKGROUND
        )
        since = min(_waiting(), default=now)
    except (Error, OSError):
        return None  # which then is all that is known
    finally:
        connection.close()
    waits = now - since > LONG
    return " ".join([NOBODY] * nobody + [WAITS.format(since=since)] * waits) or None


def _waiting() -> Iterator[datetime]:
    """Since when: the next message to a subscriber, any erasure, any upload."""
    uploaded = uploads.at_rest_since(settings.PDPP_VAR / "imports" / "uploads")
    found = [
        event_scheduler.waiting_since(),
        erasure_orders.at_rest_since(),
        None if uploaded is None else datetime.fromtimestamp(uploaded, UTC),
    ]
    return filter(None, found)
