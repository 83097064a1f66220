"""Store the plan for backups and the copies that were made, and encrypt the secrets of both."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import QuerySet
from typing_extensions import override

from evidence.models.owners import Owner, owners_of
from evidence.write.app_data import AppData
from evidence.write.sealed_values import reencrypt_rows, seal, unseal
from operations.backup.models import BackupCopy, BackupPlan

STORE_SECRET = "backup store"  # noqa: S105 - a purpose
DRILL_SECRET = "backup drill"  # noqa: S105 - a purpose


def get_plan(owner_id: str) -> BackupPlan:
    """Return the plan; one that was never saved has neither key nor schedule."""
    return BackupPlan.unscoped.filter(pk=owner_id).first() or BackupPlan(owner_id=owner_id)


def due_plan(*, now: datetime) -> BackupPlan | None:
    """Return the current owner's plan if its backup is due."""
    return _due(now).first()


def due_owners(*, now: datetime) -> list[str]:
    """Return the owners whose backup is due, or who asked for a drill. Two queries across owners."""
    owner_ids = owners_of(lambda: _due(now)) + owners_of(_waiting_drills)
    return [*dict.fromkeys(owner_ids)]


def _due(now: datetime) -> QuerySet[BackupPlan]:
    return BackupPlan.unscoped.filter(due_at__lte=now, public_key__isnull=False).order_by("due_at")


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
    days = (datetime.combine(today + timedelta(days=n), time(hour), zone) for n in range(2))
    return next(at for at in days if at > after)


def save_key(owner_id: str, public_key: bytes, *, now: datetime) -> None:
    """Seal later backups to this key. Earlier ones keep theirs."""
    values = {"public_key": public_key, "key_created_at": now}
    BackupPlan.unscoped.update_or_create(owner_id=owner_id, defaults=values)


def save_schedule(owner_id: str, values: Mapping[str, Any], *, now: datetime) -> None:
    """Save the schedule and the folder, and end a pause after a restore."""
    hour = values["hour"]
    due_at = None if hour is None else next_due(owner_id, hour, after=now)
    defaults = {**values, "due_at": due_at, "is_paused": False, "problem": None}
    BackupPlan.unscoped.update_or_create(owner_id=owner_id, defaults=defaults)


def save_store(owner_id: str, store: Mapping[str, Any] | None, secret: str | None) -> None:
    """Save the store, or remove it. Without a secret, the stored one stays."""
    values: dict[str, Any] = {"store": store, "problem": None}
    if store is None:
        values["store_secret"] = None
    elif secret is not None:
        values["store_secret"] = seal(secret.encode(), purpose=STORE_SECRET, row_id=owner_id)
    BackupPlan.unscoped.update_or_create(owner_id=owner_id, defaults=values)


def open_store_secret(plan: BackupPlan) -> str:
    """Decrypt the secret key of the store. Raises SealedError."""
    return unseal(plan.store_secret, purpose=STORE_SECRET, row_id=plan.owner_id).decode()


def back_up_now(owner_id: str, *, now: datetime) -> None:
    BackupPlan.unscoped.filter(pk=owner_id).update(due_at=now)


def finish_run(plan: BackupPlan, *, due_at: datetime | None, problem: object) -> None:
    """Save the outcome of a run, unless the owner asked for another one meanwhile."""
    rows = BackupPlan.unscoped.filter(pk=plan.pk)
    rows.update(problem=problem)
    rows.filter(due_at=plan.due_at).update(due_at=due_at)


def pause_all() -> None:
    """Pause the schedules after a restore: rotation would delete backups of the other server."""
    BackupPlan.unscoped.update(due_at=None, is_paused=True)
    BackupCopy.unscoped.update(drill_secret=None)


def list_copies(owner_id: str, *, place: str | None = None) -> Sequence[BackupCopy]:
    """Return the copies, or those in one place, latest first."""
    rows = BackupCopy.unscoped.filter(owner_id=owner_id).order_by("-made_at", "-pk")
    return list(rows if place is None else rows.filter(place=place))


def find_copy(number: int, *, owner_id: str) -> BackupCopy | None:
    return BackupCopy.unscoped.filter(pk=number, owner_id=owner_id).first()


def add_copy(owner_id: str, values: Mapping[str, Any]) -> BackupCopy:
    return BackupCopy.unscoped.create(owner_id=owner_id, **values)


def delete_copy(copy: BackupCopy) -> None:
    BackupCopy.unscoped.filter(pk=copy.pk).delete()


def request_drill(copy: BackupCopy, secret: bytes) -> None:
    """Have a background job drill a copy, with the secret of this file."""
    sealed = seal(secret.hex().encode(), purpose=DRILL_SECRET, row_id=str(copy.pk))
    BackupCopy.unscoped.filter(pk=copy.pk).update(drill_secret=sealed)


def requested_drills() -> Sequence[BackupCopy]:
    return list(_waiting_drills().order_by("pk"))


def _waiting_drills() -> QuerySet[BackupCopy]:
    return BackupCopy.unscoped.filter(drill_secret__isnull=False)


def open_drill_secret(copy: BackupCopy) -> bytes:
    """Decrypt the secret of the file. Raises SealedError."""
    return bytes.fromhex(
        unseal(copy.drill_secret, purpose=DRILL_SECRET, row_id=str(copy.pk)).decode()
    )


def finish_drill(copy: BackupCopy, *, problem: str, now: datetime) -> None:
    rows = BackupCopy.unscoped.filter(pk=copy.pk)
    rows.update(drill_secret=None, drilled_at=now, drill_problem=problem)


class BackupData(AppData):
    """The plan, and the list of copies. The files stay where they are."""

    @override
    def delete_owner(self, owner_id: str) -> Counter[str]:
        BackupPlan.unscoped.filter(pk=owner_id).delete()
        copies, _ = BackupCopy.unscoped.filter(owner_id=owner_id).delete()
        return Counter({"entries of backups": copies})


@transaction.atomic
def reencrypt() -> int:
    """Encrypt the secrets of stores with the current key, and return the number of changed ones.

    Waiting drills are to be asked for again.
    """
    BackupCopy.unscoped.update(drill_secret=None)
    rows = BackupPlan.unscoped.filter(store_secret__isnull=False)
    return reencrypt_rows(rows, "store_secret", purpose=STORE_SECRET)
