"""A warning about background jobs that wait, fail, or that no server runs."""

from datetime import datetime, timedelta

from django.db import Error, connection

from operations import jobs

JOBS_WAIT = (
    "Background jobs have been waiting since {since:%Y-%m-%d %H:%M} UTC. Keep one server running"
    " without PDPP_BACKGROUND=false; if one runs, its log shows what fails."
)
STALLED_AFTER = timedelta(minutes=10)
"""Time for which a job may wait or fail before health reports it."""


def background_warning(now: datetime) -> str | None:
    """Return a public warning about background jobs, or None, and release the connection."""
    try:
        return jobs_warning(now)
    except (Error, OSError):
        return None  # schema_version.not_ready_reason reports a failing database
    finally:
        connection.close()


def jobs_warning(now: datetime) -> str | None:
    """Return a warning about background jobs, or None. One query."""
    since = jobs.waiting_since(now)
    return JOBS_WAIT.format(since=since) if since and now - since > STALLED_AFTER else None
