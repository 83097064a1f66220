"""Choose the backups of one place that are no longer kept."""

from collections.abc import Callable, Sequence
from datetime import datetime

from evidence.models.backups import BackupCopy, BackupPlan

PERIODS: dict[str, Callable[[datetime], tuple[int, ...]]] = {
    "daily": lambda at: (at.year, at.month, at.day),
    "weekly": lambda at: at.isocalendar()[:2],
    "monthly": lambda at: (at.year, at.month),
}


def expired(copies: Sequence[BackupCopy], plan: BackupPlan) -> list[BackupCopy]:
    """Return the copies that are the newest of none of the last days, weeks and months of the plan.

    Days, weeks and months without a backup do not count. `copies` has the latest first.
    """
    kept: set[int] = set()
    for name, period in PERIODS.items():
        newest: dict[tuple[int, ...], int] = {}
        for copy in copies:
            newest.setdefault(period(copy.made_at), copy.pk)
        kept.update(list(newest.values())[: getattr(plan, name)])
    return [copy for copy in copies if copy.pk not in kept]
