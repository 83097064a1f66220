"""Hold what a source read between two states, and how its records change.

A record that another format has brought, such as a mail, is kept once. Records that their account no
longer has are deleted (mirroring). Many at once wait for the owner: a server that lost its mail must
not take these copies along.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson
from django.db import transaction
from django.db.models import Count

from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.write import stored_keys
from evidence.write.targets import load_one_target
from importers.models import ImportRun, SourceAccount, SyncedItem


@dataclass(frozen=True, slots=True)
class SeenItem:
    """An item that was read, and the key of its record; the key is empty if it has none."""

    container: str
    ref: str
    mark: str
    stream: str
    key: str


@dataclass(frozen=True, slots=True)
class SyncedRecord:
    """A record as JSON. ``replaces`` and ``unknown`` are as in ``IngestEntry``."""

    stream: str
    key: str
    data: bytes
    replaces: Sequence[str] = ()
    unknown: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class OutdatedRecords:
    """Records below a key that an item no longer has: all from ``first`` but those in ``keep``."""

    stream: str
    key: str
    keep: Sequence[str]
    first: str


@dataclass(frozen=True, slots=True)
class ItemChange:
    """Fields of a known item's record that changed, and its new mark."""

    container: str
    ref: str
    mark: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SyncRules:
    """How a source's records change.

    ``volatile`` are the fields by stream that reading a stored record again changes; other streams
    are replaced. ``container_field`` has the container. Records of ``dependents`` are deleted with
    the record whose key and a dot begin theirs. An item whose records are of such a stream has the
    part before the dot as its key: it is a series. A record whose twin has a key that begins with
    ``twin_prefix`` becomes that one: another format has brought it.
    """

    volatile: Mapping[str, Collection[str]]
    container_field: str = ""
    dependents: Sequence[str] = ()
    twin_prefix: str = ""

    def item_key(self, stream: str, record_key: str) -> str:
        """Return the key of the item with this first record."""
        return record_key.partition(".")[0] if stream in self.dependents else record_key


@dataclass(slots=True)
class SyncBatch:
    """What a source read between two states. ``ends_pass``: it has looked at everything once.

    ``gone`` has containers and refs, and whether the record stays whatever the owner chose.
    """

    records: list[SyncedRecord] = field(default_factory=list)
    outdated: list[OutdatedRecords] = field(default_factory=list)
    seen: list[SeenItem] = field(default_factory=list)
    changes: list[ItemChange] = field(default_factory=list)
    gone: list[tuple[str, str, bool]] = field(default_factory=list)
    traffic: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    ends_pass: bool = False


def use_twins(
    batch: SyncBatch, rules: SyncRules, *, owner_id: str, connection_id: str
) -> frozenset[str]:
    """Give records of a batch the keys of their stored twins, and leave out their parts and files.

    Returns the keys of which files are left out. A record that is stored under its own key keeps that.
    """
    twins = dict[str, str]()
    for name in {seen.stream for seen in batch.seen if seen.key}:
        records = {each.key: each for each in batch.records if each.stream == name}
        stored = stored_keys.existing(connection_id, name, records)
        target = load_one_target(owner_id, connection_id=connection_id, stream=name)
        twins |= stored_keys.find_twins(
            target.find(connection_id, stream=name).stream,
            {key: orjson.loads(each.data) for key, each in records.items() if key not in stored},
            connection_id=connection_id,
            prefix=rules.twin_prefix,
        )
    if not twins:
        return frozenset()
    left_out = {each.key for each in batch.records if _whole(each.key) in twins} - twins.keys()
    kept = (each for each in batch.records if each.key not in left_out)
    batch.records = [_rename(each, twins[each.key]) if each.key in twins else each for each in kept]
    batch.seen = [replace(each, key=twins.get(each.key, each.key)) for each in batch.seen]
    return frozenset(left_out) | twins.keys()


def _whole(key: str) -> str:
    """Return the key of the record that one with this key is a part of, or this key."""
    return key.partition(".")[0]


def _rename(record: SyncedRecord, key: str) -> SyncedRecord:
    data: dict[str, Any] = orjson.loads(record.data)
    data.pop(BLOB_REFERENCE, None)
    return replace(record, key=key, data=orjson.dumps({**data, "id": key}))


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
