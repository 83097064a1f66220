"""Make the backups that are due, rotate them, run drills, and say what the owner should know of them."""

import contextlib
import errno
import logging
import re
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from evidence.models.owners import current_owner, in_turn
from evidence.write.sealed_values import SealedError
from operations import schema_version
from operations.backup import plans, store
from operations.backup.drill import drill
from operations.backup.dump import BackupSummary, back_up
from operations.backup.errors import (
    BackupError,
    BackupMissingError,
    DiskFullError,
    DrillFailedError,
    FolderDeniedError,
    FolderFailedError,
    FolderMissingError,
    StoppedError,
)
from operations.backup.keys import RECOVERY, Recipient, Secret
from operations.backup.models import BackupCopy, BackupPlan
from operations.backup.restore import describe_database_error

logger = logging.getLogger(__name__)

CHECK_SECONDS = 5.0
"""Pause between two looks at the plan, and so the delay of "Back up now"."""
RETRY = timedelta(hours=1)
NAME = "pdpp-{owner}{at:%Y-%m-%dT%H%M%SZ}.backup"
DRAFT = re.compile(r"\.pdpp-(?:[a-z0-9]+-)?\d{4}-\d\d-\d\dT\d{6}Z\.backup\.[0-9a-f]{8}")
DRAFT_SECONDS = 86_400.0
"""Older drafts are of a process that was killed."""
FOLDER_ERRORS: dict[int, type[BackupError]] = {
    errno.ENOSPC: DiskFullError,
    errno.EDQUOT: DiskFullError,
    errno.ENOENT: FolderMissingError,
    errno.ENOTDIR: FolderMissingError,
    errno.EACCES: FolderDeniedError,
    errno.EPERM: FolderDeniedError,
    errno.EROFS: FolderDeniedError,
}

DIFFERS = (
    "Its answers or its ledger differ from those at backup time. Make a new backup, and run a drill"
    " of it."
)

PERIODS: dict[str, Callable[[datetime], tuple[int, ...]]] = {
    "daily": lambda at: (at.year, at.month, at.day),
    "weekly": lambda at: at.isocalendar()[:2],
    "monthly": lambda at: (at.year, at.month),
}

Steps = Generator[object, None, None]


def backups() -> Iterator[object]:
    """Make the backups that are due, and run drills. The function's name is a label in metrics.

    One owner follows another, because a backup keeps its snapshot open from step to step.
    """
    due = partial(plans.due_owners, now=timezone.now())
    yield from in_turn(due, _back_up_owner, most=1, looks_again=True)


def _back_up_owner() -> Iterator[object]:
    plan = plans.due_plan(now=timezone.now())
    if plan is not None:
        yield from _run(plan, now=timezone.now())
    for copy in plans.requested_drills():
        yield from _drill(copy, now=timezone.now())


def folder_error(error: OSError, folder: str) -> BackupError:
    """Return what an error of the file system means for a folder of backups."""
    kind = FOLDER_ERRORS.get(error.errno or 0, FolderFailedError)
    detail = f"{folder} ({error.strerror})." if kind is FolderFailedError else f"{folder}."
    return kind(detail)


def _run(plan: BackupPlan, *, now: datetime) -> Steps:
    """Back up to every place of the plan, and save what failed."""
    problems: list[BackupError] = []
    try:
        yield from _back_up(plan, problems, now=now)
    except Exception as error:  # noqa: BLE001 - or it would start again at once
        problems.append(_unexpected(error))
    due_at = None
    if plan.hour is not None and not plan.is_paused:
        due_at = now + RETRY if problems else plans.next_due(plan.owner_id, plan.hour, after=now)
    problem = None
    if problems:
        first = problems[0]
        texts = list(dict.fromkeys(each.text for each in problems))
        problem = {"code": type(first).__name__, "texts": texts, "at": now.isoformat()}
    plans.finish_run(plan, due_at=due_at, problem=problem)


def _back_up(plan: BackupPlan, problems: list[BackupError], *, now: datetime) -> Steps:
    """Write the file once. A folder that fails does not keep the store from its copy."""
    owner_id = plans.only_owner(plan)
    name = NAME.format(owner=f"{owner_id}-" if owner_id else "", at=now)
    with contextlib.ExitStack() as stack:
        made = None
        if plan.folder:
            try:
                path = Path(plan.folder, name)
                made = path, (yield from _write(plan, path, now=now))
                _finish_copy(plan, plan.folder, made[1], name=name, now=now)
            except BackupError as error:
                problems.append(error)
            except OSError as error:
                problems.append(folder_error(error, plan.folder))
        if plan.store is None:
            return
        try:
            if made is None:
                path = stack.enter_context(temporary_folder()) / name
                made = path, (yield from _write(plan, path, now=now))
            bucket = store.open_store(plan)
            yield from bucket.put(made[0], name)
            _finish_copy(plan, bucket.address, made[1], name=name, now=now)
        except BackupError as error:
            problems.append(error)
        except OSError as error:
            problems.append(folder_error(error, str(settings.PDPP_VAR)))


def _write(
    plan: BackupPlan, path: Path, *, now: datetime
) -> Generator[object, None, BackupSummary]:
    """Write a backup that the recovery key opens.

    One of the whole installation has all that a new machine needs. One of an owner's rows has no key of
    the installation, which would open what is another's.
    """
    owner_id = plans.only_owner(plan)
    _delete_old_drafts(path.parent)
    return (
        yield from back_up(
            path,
            Recipient(bytes(plan.public_key or b"")),
            owner_id=owner_id,
            migrations=schema_version.applied_migrations(),
            with_keys=owner_id is None,
            now=now,
        )
    )


def _delete_old_drafts(folder: Path) -> None:
    for path in folder.iterdir():
        if DRAFT.fullmatch(path.name) and time.time() - path.stat().st_mtime > DRAFT_SECONDS:
            path.unlink(missing_ok=True)


def _finish_copy(
    plan: BackupPlan, place: str, summary: BackupSummary, *, name: str, now: datetime
) -> None:
    """Add the copy to the list, then delete what the plan no longer keeps in its place."""
    values = {
        "name": name,
        "place": place,
        "made_at": now,
        "size_bytes": summary.size_bytes,
        "rows": summary.rows,
        "fingerprint": summary.header.fingerprint,
        "sealed": summary.header.sealed,
    }
    plans.add_copy(plan.owner_id, values)
    if plan.is_paused:
        return
    for copy in expired(plans.list_copies(plan.owner_id, place=place), plan):
        if place == plan.folder:
            Path(place, copy.name).unlink(missing_ok=True)
        else:
            store.open_store(plan).delete(copy.name)
        plans.delete_copy(copy)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder on the disk of PDPP_VAR, where a whole backup has room."""
    settings.PDPP_VAR.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=settings.PDPP_VAR) as folder:
        yield Path(folder)


def _drill(copy: BackupCopy, *, now: datetime) -> Steps:
    """Restore a copy into a scratch database, and save whether it holds."""
    try:
        problem = yield from _drill_problem(copy, now=now)
    except DrillFailedError as error:
        problem = error.detail
    except BackupError as error:
        problem = error.text
    except OSError as error:
        problem = folder_error(error, copy.place).text
    except Exception as error:  # noqa: BLE001 - or it would start again at once
        problem = _unexpected(error).text
    plans.finish_drill(copy, problem=problem, now=timezone.now())


def _drill_problem(copy: BackupCopy, *, now: datetime) -> Generator[object, None, str]:
    try:
        secret = Secret(RECOVERY, plans.open_drill_secret(copy))
    except SealedError:
        return "The drill was interrupted. Run it again."
    with contextlib.ExitStack() as stack:
        path = Path(copy.place, copy.name)
        if not is_folder(copy):
            path = stack.enter_context(temporary_folder()) / copy.name
            bucket = store.open_store(plans.get_plan(current_owner()))
            if bucket.address != copy.place:
                raise BackupMissingError(f"{copy.place} is another store.")
            yield from bucket.get(copy.name, path)
        if not path.is_file():
            raise BackupMissingError(f"{path}.")
        verification = yield from drill(path, secret, with_keys=False, now=now)
    return "" if verification.holds else DIFFERS


def _unexpected(error: Exception) -> BackupError:
    """Return what the owner may see of an error, whose text may quote a record."""
    name = type(error).__name__
    logger.error("a backup or drill stopped: %s", name)
    if isinstance(error, DatabaseError):
        return StoppedError(describe_database_error(error))
    return StoppedError(f"{name}.")


def is_folder(copy: BackupCopy) -> bool:
    """Return whether a copy is in a folder of this machine."""
    return copy.place.startswith("/")


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
    """Return why the last backup failed, for each place."""
    return list((plan.problem or {}).get("texts", ()))


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
