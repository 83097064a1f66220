"""Choose which records to delete because their account no longer has them (mirroring).

Many at once wait for the owner: a server that lost its mail must not take these copies along.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count

from evidence.models.connections import SourceAccount, SyncedItem
from evidence.models.imports import ImportRun

MAX_RECORDS = 50
MAX_SHARE = 0.2
"""More records of a container than both are deleted only if the owner agrees."""


@dataclass(frozen=True, slots=True)
class Deletions:
    """Items whose records to delete. ``held``: what the owner is asked, as it is stored."""

    items: Sequence[SyncedItem] = ()
    held: dict[str, Any] | None = None


def choose_deletions(account: SourceAccount, *, seen: Collection[str], now: datetime) -> Deletions:
    """Return what to delete at the end of a pass, which has seen records with these keys.

    An item is gone for a pass before, so that a message on its way from one folder to another is not
    deleted.
    """
    if not account.is_mirror:
        return Deletions()
    doomed = list(_doomed(account, seen))
    asked = [item for item in doomed if (item.gone_pass or 0) > account.allowed_pass]
    containers = _too_many(account, asked)
    if not containers:
        return Deletions(doomed)
    held = {
        "through": max(item.gone_pass or 0 for item in asked),
        "containers": containers,
        "since": (account.held_deletions or {}).get("since", now.isoformat()),
    }
    agreed = [item for item in doomed if (item.gone_pass or 0) <= account.allowed_pass]
    return Deletions(agreed, held)


def _doomed(account: SourceAccount, seen: Collection[str]) -> Iterator[SyncedItem]:
    """Yield gone items whose records the account brought, no import since may have contained, and no
    other item has."""
    items = SyncedItem.unscoped.filter(connection_id=account.connection_id)
    old = list(items.filter(gone_pass__lt=account.pass_number, is_ours=True).exclude(record_key=""))
    keys = {item.record_key for item in old}
    remaining = items.filter(record_key__in=keys, gone_pass__isnull=True)
    live = {*remaining.values_list("record_key", flat=True), *seen}
    runs = ImportRun.unscoped.filter(connection_id=account.connection_id)
    imported = runs.order_by("-updated_at").values_list("updated_at", flat=True).first()
    for item in old:
        if item.record_key not in live and (imported is None or imported < item.seen_at):
            yield item


def _too_many(account: SourceAccount, asked: Sequence[SyncedItem]) -> list[list[Any]]:
    """Return the containers that lose too much: name, records to delete, and records in all."""
    lost = Counter(item.container for item in asked)
    items = SyncedItem.unscoped.filter(connection_id=account.connection_id, container__in=lost)
    totals = items.exclude(record_key="").values_list("container").annotate(Count("ref"))
    return [
        [container, lost[container], total]
        for container, total in totals.order_by("container")
        if lost[container] > MAX_RECORDS and lost[container] > MAX_SHARE * total
    ]


@transaction.atomic
def answer_deletions(
    account: SourceAccount, *, through: int, is_agreed: bool, now: datetime
) -> None:
    """Let the next run delete what was asked about up to this pass, or keep it for good."""
    rows = SourceAccount.unscoped.filter(
        connection_id=account.connection_id, held_deletions__through__gte=through
    )
    if is_agreed:
        rows.update(allowed_pass=through, held_deletions=None, due_at=now)
    elif rows.update(held_deletions=None):
        items = SyncedItem.unscoped.filter(connection_id=account.connection_id)
        items.filter(gone_pass__lte=through).delete()
