"""What the owner should know about backups: the latest ones, and what needs attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from evidence.models.backups import BackupCopy, BackupPlan

LATE = timedelta(days=2)
"""A daily backup this old means that the schedule does not run."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The times of the latest backup and of the latest drill that succeeded."""

    backup: datetime | None
    drill: datetime | None


def latest(copies: Sequence[BackupCopy]) -> Latest:
    drills = [copy.drilled_at for copy in copies if copy.drilled_at and not copy.drill_problem]
    return Latest(max((copy.made_at for copy in copies), default=None), max(drills, default=None))


def notices(plan: BackupPlan, copies: Sequence[BackupCopy], *, now: datetime) -> list[str]:
    """Return what needs the owner, as sentences without text of a record."""
    lines = []
    if plan.problem:
        lines.append(f"The last backup failed. {plan.problem['text']}")
    elif plan.is_paused and plan.hour is not None:
        lines.append("Backups are paused after a restore. Check the schedule and save it.")
    elif not copies:
        lines.append("There is no backup yet.")
    elif plan.hour is not None and (made := latest(copies).backup) and now - made > LATE:
        lines.append(f"The last backup is {(now - made).days} days old.")
    drilled = [copy for copy in copies if copy.drilled_at]
    last = max(drilled, key=lambda copy: copy.drilled_at or now, default=None)
    if last is not None and last.drill_problem:
        lines.append(f"The last drill failed. {last.drill_problem}")
    return lines
