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


def _failures(plan: BackupPlan) -> list[str]:
    """Return why the last backup failed, for each place. Earlier releases stored one text."""
    problem = plan.problem or {}
    return problem.get("texts") or [problem[name] for name in ("text",) if name in problem]


def _first_step(plan: BackupPlan) -> str:
    if not plan.public_key:
        return "Create a recovery key first."
    if not (plan.folder or plan.store):
        return "Choose a folder or a store."
    return "Choose “Back up now”." if plan.hour is None else "The schedule makes the first one."


def notices(plan: BackupPlan, copies: Sequence[BackupCopy], *, now: datetime) -> list[str]:
    """Return what needs the owner, as sentences without text of a record."""
    lines = [f"The last backup failed. {text}" for text in _failures(plan)]
    if plan.is_paused and plan.hour is not None:
        lines.append("Backups are paused after a restore. Check the schedule and save it.")
    elif not copies and not lines:
        lines.append(f"There is no backup yet. {_first_step(plan)}")
    elif plan.hour is not None and (made := latest(copies).backup) and now - made > LATE:
        lines.append(
            f"The last backup is {(now - made).days} days old. Choose “Back up now”, and leave the"
            " server running at the hour of the schedule."
        )
    drilled = [copy for copy in copies if copy.drilled_at]
    last = max(drilled, key=lambda copy: copy.drilled_at or now, default=None)
    if last is not None and last.drill_problem:
        lines.append(f"The last drill failed. {last.drill_problem}")
    return lines
