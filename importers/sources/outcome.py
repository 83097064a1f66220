"""Record what a run of a source did: its counts, its problems in the owner's words, and the next run.

Some providers limit how much an account reads on a day (UTC); the next run waits for the next day.
"""

import logging
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, time, timedelta
from typing import Any

from django.utils import timezone

from evidence.write.ingest import IngestResult
from importers.core.results import ReceiptCode
from importers.core.source import ProblemCode, SourceError
from importers.models import SourceAccount
from importers.registry import find_source
from importers.sources import account_store

SETTING = "daily_megabytes"
JITTER = 0.1
"""Share by which intervals differ, so that accounts do not all start at once."""
SPREAD = timedelta(minutes=5)
FIRST_DELAY = timedelta(minutes=1)
MAX_DELAY = timedelta(hours=6)
MAX_NOTES = 50

logger = logging.getLogger(__name__)


def is_reached(account: SourceAccount, *, now: datetime, more: int = 0) -> bool:
    """Return whether an account that reads ``more`` bytes must wait for the next day."""
    megabytes = account.settings.get(SETTING)
    return bool(megabytes) and _bytes_of(account, now) + more >= megabytes * 1_000_000


def added(account: SourceAccount, size: int, *, now: datetime) -> Mapping[str, Any]:
    """Return the traffic of the account with ``size`` more bytes."""
    return {"day": now.date().isoformat(), "bytes": _bytes_of(account, now) + size}


def _bytes_of(account: SourceAccount, now: datetime) -> int:
    is_today = account.traffic.get("day") == now.date().isoformat()
    return int(account.traffic["bytes"]) if is_today else 0


@dataclass(slots=True)
class RunReport:
    """What a run did, for the owner's pages. ``notes`` are items that were not stored whole.

    ``skipped`` are counts of what the source does not read, by kind.
    """

    started_at: str
    finished_at: str = ""
    created: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    files: int = 0
    left_out: int = 0
    done: int = 0
    total: int = 0
    is_complete: bool = False
    notes: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    def add(self, result: IngestResult) -> None:
        self.created += result.created
        self.updated += result.updated
        self.deleted += result.deleted
        self.unchanged += result.unchanged

    def note(self, location: str, code: ReceiptCode, detail: str = "") -> None:
        text = code.text
        self.left_out += not text.is_imported
        if len(self.notes) < MAX_NOTES:
            self.notes.append(" ".join(filter(None, (f"{location}: {text.problem}", detail))))


def finish_run(
    account: SourceAccount,
    report: RunReport,
    stopped_at: list[str] | None,
    error: SourceError | None,
) -> None:
    """Save the outcome of a run, and plan the next one. ``stopped_at``: the item that ended it."""
    now = timezone.now()
    report.finished_at = now.isoformat()
    source = find_source(account.source_name)
    problem, failures, delay = None, 0, MAX_DELAY if source is None else source.interval
    is_failure = error is not None and error.code is not ProblemCode.CONTAINER_MISSING
    if error is not None:
        problem = _problem(account.problem or {}, error, stopped_at, now)
        logger.warning("a sync of %s failed: %s", account.connection_id, error.code)
    if is_failure:
        failures = account.failures + 1
        delay = min(MAX_DELAY, FIRST_DELAY * 2 ** min(failures - 1, 10))
        if needs_owner(problem):
            delay = MAX_DELAY
    elif not report.is_complete:
        delay = timedelta()
    due_at = now + delay * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
    if is_reached(account, now=now):
        due_at = max(due_at, next_day(now))
    account_store.finish_run(
        account,
        due_at=due_at,
        last_run=asdict(report),
        problem=problem,
        failures=failures,
        succeeded_at=now if report.is_complete and not is_failure else None,
    )


def next_day(now: datetime) -> datetime:
    """Return when an account continues that has read its daily limit."""
    midnight = datetime.combine(now.date() + timedelta(days=1), time(), tzinfo=now.tzinfo)
    return midnight + SPREAD * random.random()  # noqa: S311 - no secret


def needs_owner(problem: Mapping[str, Any] | None) -> bool:
    """Return whether trying again changes nothing until the owner acts."""
    return problem is not None and ProblemCode(problem["code"]).text.needs_owner


def _problem(
    before: dict[str, Any], error: SourceError, stopped_at: list[str] | None, now: datetime
) -> dict[str, Any]:
    """Return what to tell the owner, since when, and which items to skip.

    An item is skipped after the source ended twice while it parsed it.
    """
    skip = before.get("skip", [])
    if stopped_at is not None and before.get("stopped_at") == stopped_at:
        skip = [*skip, stopped_at]
    return {
        "code": str(error.code),
        "detail": error.detail,
        "since": before["since"] if before.get("code") == error.code else now.isoformat(),
        "stopped_at": stopped_at,
        "skip": skip,
    }
