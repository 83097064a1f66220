"""Plans for backups, and the background job that makes what is due, rotates, and runs drills."""

import errno
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from django.db import DatabaseError
from django.db.models import QuerySet
from django.utils import timezone
from typing_extensions import override

from evidence.models.owners import Owner, across_owners, in_turn, owners_of
from evidence.write.app_data import AppData
from evidence.write.sealed_values import SealedError, seal, unseal
from operations import health
from operations.backup.archive import BackupSummary, back_up
from operations.backup.keys import BackupError, FileKey, fingerprint
from operations.backup.models import BackupCopy, BackupPlan
from operations.backup.restore import describe_database_error, drill

logger = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
"""Pause between two looks at the plan, and so the delay of "Back up now"."""
RETRY = timedelta(hours=1)
LATE = timedelta(days=2)
"""A daily backup or off-site copy this old means that its schedule does not run."""
OFFSITE_MARKER = "last-offsite"
"""The file that a program touches in the folder after it has copied the backups elsewhere."""
NAME = "pdpp-{owner}{at:%Y-%m-%dT%H%M%SZ}.{fingerprint}.age"
DRAFT = re.compile(r"\.pdpp-(?:[a-z0-9]+-)?\d{4}-\d\d-\d\dT\d{6}Z\.[0-9a-f-]{9}\.age\.[0-9a-f]{8}")
DRAFT_SECONDS = 86_400.0
"""Older drafts are of a process that was killed."""
DRILL_KEY = "backup drill"
DIFFERS = (
    "Its answers or its ledger differ from those at backup time. Make a new backup, and run a drill"
    " of it."
)
INTERRUPTED = "The drill was interrupted. Run it again."
PERIODS: dict[str, Callable[[datetime], tuple[int, ...]]] = {
    "daily": lambda at: (at.year, at.month, at.day),
    "weekly": lambda at: at.isocalendar()[:2],
    "monthly": lambda at: (at.year, at.month),
}


class FolderMissingError(BackupError):
    """The folder for backups does not exist, or its disk is not mounted: {}. Connect the disk, or
    choose another folder on the page Backups."""


class FolderDeniedError(BackupError):
    """The server may not write into the folder for backups: {}. Give its account write access, or
    choose another folder on the page Backups."""


class DiskFullError(BackupError):
    """The disk of the folder for backups is full: {}. Free some space, or keep fewer backups."""


class FolderFailedError(BackupError):
    """The folder for backups cannot be used: {}. Check its disk, or choose another folder on the
    page Backups."""


class StoppedError(BackupError):
    """The backup or drill stopped with an unexpected error: {}. See the server's log. A backup is
    tried again in an hour."""


class BackupMissingError(BackupError):
    """The backup is no longer where it was stored: {}. Use another backup."""


FOLDER_ERRORS: dict[int, type[BackupError]] = {
    errno.ENOSPC: DiskFullError,
    errno.EDQUOT: DiskFullError,
    errno.ENOENT: FolderMissingError,
    errno.ENOTDIR: FolderMissingError,
    errno.EACCES: FolderDeniedError,
    errno.EPERM: FolderDeniedError,
    errno.EROFS: FolderDeniedError,
}


def folder_error(error: OSError, folder: str) -> BackupError:
    """Return what an error of the file system means for a folder of backups."""
    kind = FOLDER_ERRORS.get(error.errno or 0, FolderFailedError)
    return kind(f"{folder} ({error.strerror})" if kind is FolderFailedError else folder)


def get_plan(owner_id: str) -> BackupPlan:
    """Return the plan; one that was never saved has neither key nor schedule."""
    return BackupPlan.unscoped.filter(pk=owner_id).first() or BackupPlan(owner_id=owner_id)


def folder_of(plan: BackupPlan) -> str:
    """Return the folder for the backups of a plan, or an empty text.

    A folder of the server is an administrator's, and serves the other owners too.
    """
    with across_owners():
        plans = BackupPlan.unscoped.filter(owner__is_administrator=True, owner__removed_at=None)
        chosen = plans.exclude(folder="").order_by("owner__created_at", "pk")
        folders = dict(chosen.values_list("pk", "folder"))
    return folders.get(plan.pk) or next(iter(folders.values()), "")


def offsite_at(folder: str) -> datetime | None:
    """Return when the backups of a folder were last copied elsewhere, as its marker file says."""
    try:
        return datetime.fromtimestamp(Path(folder, OFFSITE_MARKER).stat().st_mtime, UTC)
    except OSError:
        return None


def only_owner(plan: BackupPlan) -> str | None:
    """Return whose rows alone a plan backs up, or None if it backs up the whole installation.

    That is where its owner is the only one, or administers the installation and chose so.
    """
    is_administrator = Owner.unscoped.filter(pk=plan.pk, is_administrator=True).exists()
    covers_everyone = plan.covers_everyone and is_administrator
    return plan.pk if has_others(plan) and not covers_everyone else None


def has_others(plan: BackupPlan) -> bool:
    """Return whether the installation has other owners than the plan's."""
    return Owner.unscoped.exclude(pk=plan.pk).filter(removed_at=None).exists()


def next_due(owner_id: str, hour: int, *, after: datetime) -> datetime:
    """Return the next time with this hour in the owner's time zone."""
    zone = ZoneInfo(Owner.unscoped.values_list("time_zone", flat=True).get(pk=owner_id))
    today = after.astimezone(zone).date()
    days = (datetime.combine(today + timedelta(days=n), time_of_day(hour), zone) for n in range(2))
    return next(at for at in days if at > after)


def save_key(owner_id: str, recipient: str, *, now: datetime) -> None:
    """Encrypt later backups to this key. Earlier ones keep theirs."""
    values = {"recipient": recipient, "key_created_at": now}
    BackupPlan.unscoped.update_or_create(owner_id=owner_id, defaults=values)


def save_schedule(owner_id: str, values: Mapping[str, Any], *, now: datetime) -> None:
    """Save the schedule and the folder, and end a pause after a restore."""
    hour = values["hour"]
    due_at = None if hour is None else next_due(owner_id, hour, after=now)
    defaults = {**values, "due_at": due_at, "is_paused": False, "problem": None}
    BackupPlan.unscoped.update_or_create(owner_id=owner_id, defaults=defaults)


def back_up_now(owner_id: str, *, now: datetime) -> None:
    BackupPlan.unscoped.filter(pk=owner_id).update(due_at=now)


def list_copies(owner_id: str, *, folder: str | None = None) -> Sequence[BackupCopy]:
    """Return the copies, or those in one folder, latest first."""
    rows = BackupCopy.unscoped.filter(owner_id=owner_id).order_by("-made_at", "-pk")
    return list(rows if folder is None else rows.filter(folder=folder))


def request_drill(copy: BackupCopy, secret_line: str) -> None:
    """Have a background job drill a copy, with the key of this file."""
    sealed = seal(secret_line.encode(), purpose=DRILL_KEY, row_id=str(copy.pk))
    BackupCopy.unscoped.filter(pk=copy.pk).update(drill_key=sealed)


def cancel_drills() -> int:
    """Forget the keys of waiting drills, before the installation's key changes."""
    return BackupCopy.unscoped.filter(drill_key__isnull=False).update(drill_key=None)


class BackupData(AppData):
    """The plan, and the list of copies. The files stay where they are."""

    @override
    def delete_owner(self, owner_id: str) -> Counter[str]:
        BackupPlan.unscoped.filter(pk=owner_id).delete()
        copies, _ = BackupCopy.unscoped.filter(owner_id=owner_id).delete()
        return Counter({"entries of backups": copies})


def _due_plans(now: datetime) -> QuerySet[BackupPlan]:
    return BackupPlan.unscoped.filter(due_at__lte=now).exclude(recipient="").order_by("due_at")


def _waiting_drills() -> QuerySet[BackupCopy]:
    return BackupCopy.unscoped.filter(drill_key__isnull=False).order_by("pk")


def backups() -> Iterator[object]:
    """Make the backups that are due, and run drills.

    One owner follows another, because a backup keeps its snapshot open from step to step.
    """

    def due() -> list[str]:
        found = owners_of(partial(_due_plans, timezone.now())) + owners_of(_waiting_drills)
        return [*dict.fromkeys(found)]

    yield from in_turn(due, _back_up_owner, most=1, looks_again=True)


def _back_up_owner() -> Iterator[object]:
    if (plan := _due_plans(timezone.now()).first()) is not None:
        yield from _run(plan, now=timezone.now())
    for copy in list(_waiting_drills()):
        yield from _drill(copy)


def _run(plan: BackupPlan, *, now: datetime) -> Iterator[object]:
    """Make a backup, and save why it failed."""
    problem = None
    try:
        yield from _back_up(plan, now=now)
    except BackupError as error:
        problem = error
    except OSError as error:
        problem = folder_error(error, plan.folder)
    except Exception as error:  # noqa: BLE001 - or it would start again at once
        problem = _unexpected(error)
    due_at = None
    if plan.hour is not None and not plan.is_paused:
        due_at = now + RETRY if problem else next_due(plan.owner_id, plan.hour, after=now)
    said = problem and {
        "code": type(problem).__name__, "text": str(problem), "at": now.isoformat(),
    }  # fmt: skip
    rows = BackupPlan.unscoped.filter(pk=plan.pk)
    rows.update(problem=said)
    rows.filter(due_at=plan.due_at).update(due_at=due_at)  # unless asked for another meanwhile


def _back_up(plan: BackupPlan, *, now: datetime) -> Iterator[object]:
    """Write a backup, add it to the list, and delete what the plan no longer keeps."""
    plan.folder = folder_of(plan)
    if not plan.folder:
        raise FolderMissingError("none is chosen")
    _delete_old_drafts(Path(plan.folder))
    owner_id, key_name = only_owner(plan), fingerprint(plan.recipient)
    name = NAME.format(owner=f"{owner_id}-" if owner_id else "", at=now, fingerprint=key_name)
    key = FileKey.generate(plan.recipient)
    summary: BackupSummary = yield from back_up(
        Path(plan.folder, name),
        key.recipients,
        owner_id=owner_id,
        migrations=health.applied_migrations(),
        now=now,
    )
    BackupCopy.unscoped.create(
        owner_id=plan.owner_id,
        name=name,
        folder=plan.folder,
        made_at=now,
        size_bytes=summary.size_bytes,
        rows=summary.rows,
        fingerprint=key_name,
        sealed=key.sealed,
    )
    copies = [] if plan.is_paused else list_copies(plan.owner_id, folder=plan.folder)
    for copy in expired(copies, plan):
        Path(copy.folder, copy.name).unlink(missing_ok=True)
        copy.delete()


def _delete_old_drafts(folder: Path) -> None:
    for path in folder.iterdir():
        if DRAFT.fullmatch(path.name) and time.time() - path.stat().st_mtime > DRAFT_SECONDS:
            path.unlink(missing_ok=True)


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


def _drill(copy: BackupCopy) -> Iterator[object]:
    """Restore a copy into a scratch database, and save whether it holds."""
    try:
        problem = yield from _drill_problem(copy)
    except BackupError as error:
        problem = str(error)
    except OSError as error:
        problem = str(folder_error(error, copy.folder))
    except Exception as error:  # noqa: BLE001 - or it would start again at once
        problem = str(_unexpected(error))
    rows = BackupCopy.unscoped.filter(pk=copy.pk)
    rows.update(drill_key=None, drilled_at=timezone.now(), drill_problem=problem)


def _drill_problem(copy: BackupCopy) -> Generator[object, None, str]:
    try:
        key = unseal(copy.drill_key, purpose=DRILL_KEY, row_id=str(copy.pk)).decode()
    except SealedError:
        return INTERRUPTED
    path = Path(copy.folder, copy.name)
    if not path.is_file():
        raise BackupMissingError(str(path))
    verification = yield from drill(path, key, now=timezone.now())
    return "" if verification.holds else DIFFERS


def _unexpected(error: Exception) -> BackupError:
    """Return what the owner may see of an error, whose text may quote a record."""
    name = type(error).__name__
    logger.error("a backup or drill stopped: %s", name)
    return StoppedError(
        describe_database_error(error) if isinstance(error, DatabaseError) else name
    )


@dataclass(frozen=True, slots=True)
class Latest:
    """The times of the latest backup, of its copy elsewhere, and of the latest drill that succeeded."""

    backup: datetime | None
    offsite: datetime | None
    drill: datetime | None


def latest(plan: BackupPlan, copies: Sequence[BackupCopy]) -> Latest:
    drills = [copy.drilled_at for copy in copies if copy.drilled_at and not copy.drill_problem]
    made = max((copy.made_at for copy in copies), default=None)
    folder = folder_of(plan)
    return Latest(made, offsite_at(folder) if folder else None, max(drills, default=None))


def _first_step(plan: BackupPlan) -> str:
    if not plan.recipient:
        return "Create a recovery key first."
    if not folder_of(plan):
        return "An administrator chooses a folder first."
    return "Choose “Back up now”." if plan.hour is None else "The schedule makes the first one."


def notices(plan: BackupPlan, copies: Sequence[BackupCopy], *, now: datetime) -> list[str]:
    """Return what needs the owner, as sentences without text of a record."""
    last = latest(plan, copies)
    is_starting = plan.due_at is not None and plan.due_at <= now < plan.due_at + LATE
    lines = [f"The last backup failed. {plan.problem['text']}"] if plan.problem else []
    if plan.is_paused and plan.hour is not None:
        lines.append("Backups are paused after a restore. Check the schedule and save it.")
    elif not copies and not lines and not is_starting:
        lines.append(f"There is no backup yet. {_first_step(plan)}")
    elif plan.hour is not None and last.backup and now - last.backup > LATE:
        lines.append(
            f"The last backup is {(now - last.backup).days} days old. Choose “Back up now”, and leave"
            " the server running at the hour of the schedule."
        )
    if last.offsite and last.backup and last.backup - last.offsite > LATE:
        lines.append(
            f"The last off-site copy is {(now - last.offsite).days} days old. Check the program that"
            " copies the folder."
        )
    drilled = [copy for copy in copies if copy.drilled_at]
    newest = max(drilled, key=lambda copy: copy.drilled_at or now, default=None)
    if newest is not None and newest.drill_problem:
        lines.append(f"The last drill failed. {newest.drill_problem}")
    return lines
