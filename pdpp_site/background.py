"""The background jobs of this installation, and what each waits for."""

import hashlib
import socket
from collections.abc import Sequence
from pathlib import Path

from django.conf import settings

from evidence.events.event_scheduler import deliver_events
from evidence.ledger.checkpoints import sign_all
from importers.runs.runner import ImportWorker
from importers.sources.runner import read_accounts
from operations import background_jobs
from operations.backup import schedule
from operations.jobs import MAX_IDLE_SECONDS, Job
from operations.notifications import delivery
from owner.records import people_index


def registry() -> Sequence[Job]:
    """Return all jobs. Those of one lane take turns, and lanes do not wait for each other."""
    watch = Path(settings.PDPP_WATCH) if settings.PDPP_WATCH else None
    imports = ImportWorker(
        settings.PDPP_VAR / "imports", watch=watch, seconds=settings.PDPP_WATCH_SECONDS
    )
    vectors = background_jobs.for_changed_owners(background_jobs.vectors)
    people = background_jobs.for_changed_owners(
        lambda: background_jobs.with_rests(people_index.derive_people())
    )
    return (
        Job(name="erasures", lane="urgent", steps=background_jobs.erasures),
        Job(name="events", lane="events", steps=deliver_events),
        Job(
            name="notifications",
            lane="notifications",
            steps=delivery.notifications,
            pause=delivery.INTERVAL_SECONDS,
            max_pause=None,
        ),
        Job(
            name="upkeep",
            lane="upkeep",
            steps=background_jobs.upkeep,
            pause=background_jobs.UPKEEP_SECONDS,
            max_pause=None,
        ),
        Job(name="signing", lane="ledger", steps=sign_all, max_pause=30),
        Job(name="words", lane="index", steps=background_jobs.words),
        Job(name="vectors", lane="index", steps=vectors),
        Job(name="people", lane="index", steps=people),
        Job(name="accounts", lane="accounts", steps=read_accounts),
        Job(
            name=f"imports {_place()}",
            lane="imports",
            steps=imports.job,
            stop=imports.close,
            max_pause=min(settings.PDPP_WATCH_SECONDS, MAX_IDLE_SECONDS),
        ),
        Job(name="backups", lane="backups", steps=schedule.backups, pause=schedule.CHECK_SECONDS),
    )


def _place() -> str:
    """Return a name for PDPP_VAR on this machine: only its servers can read its uploads."""
    place = f"{socket.gethostname()} {settings.PDPP_VAR}"
    return hashlib.sha256(place.encode()).hexdigest()[:12]
