"""Warnings about background jobs that wait or that no server runs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import Error, connection

from evidence import advisory_locks
from evidence.events import event_scheduler
from evidence.write import erasure_orders
from importers.runs import uploads
from operations import leader_lock

NO_LEADER = "No server is running background jobs. Start one without PDPP_BACKGROUND=false."
JOBS_DELAYED = "A background job has been waiting since {since:%Y-%m-%d %H:%M} UTC."
STALLED_AFTER = timedelta(hours=1)
"""Maximum age of a queued job before health reports a delay; only a very large job takes longer."""


def background_warning(now: datetime) -> str | None:
    """Return a public warning about background jobs, or None. At most three queries."""
    try:
        lacks_leader = not settings.PDPP_BACKGROUND and not advisory_locks.is_locked(
            leader_lock.BACKGROUND_JOBS
        )
        since = min(_waiting_since(), default=now)
    except (Error, OSError):
        return None  # schema_version.not_ready_reason reports a failing database
    finally:
        connection.close()
    is_delayed = now - since > STALLED_AFTER
    return (
        " ".join([NO_LEADER] * lacks_leader + [JOBS_DELAYED.format(since=since)] * is_delayed)
        or None
    )


def _waiting_since() -> Iterator[datetime]:
    """Return since when the next event, an erasure and an upload have been waiting."""
    last_upload = uploads.last_activity(settings.PDPP_VAR / "imports")
    times = [
        event_scheduler.next_due_at(),
        erasure_orders.last_progress_at(),
        None if last_upload is None else datetime.fromtimestamp(last_upload, UTC),
    ]
    return filter(None, times)
