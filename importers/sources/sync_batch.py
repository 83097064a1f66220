"""Store what a source read between two states, with its new state, in one transaction.

A source reads items (messages) of containers (folders). Several items can be one record: a message
that was copied, or that is in transit from one folder to another. Which record an item became is
kept in ``SyncedItem``, so that flags, moves and deletions need not read it again.

A record that another format has brought, such as a mail, is kept once. Records that their account no
longer has are deleted (mirroring). Many at once wait for the owner: a server that lost its mail must
not take these copies along.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson
from django.db import transaction
from django.db.models import Count, F, QuerySet

from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.errors import ApiException
from evidence.write import stored_keys
from evidence.write.ingest import IngestResult, ingest_in_transaction
from evidence.write.locks import lock_connection
from evidence.write.ndjson import NOTICES, NdjsonLine, Receipt, ReceiptCode
from evidence.write.rows import RecordId, ids_below
from evidence.write.targets import load_one_target
from evidence.write.writer import storage_errors
from importers.core.results import StaleRecords
from importers.core.sandbox import RecordHeader
from importers.core.source import Change, InstalledSource
from importers.models import ImportRun, SourceAccount, SyncedItem
from importers.runs.record_feed import upsert_line
from importers.sources.account_store import SYNCED_STATUSES

MAX_RECORDS = 50
MAX_SHARE = 0.2
"""More records of a container than both are deleted only if the owner agrees."""
StoreFiles = Callable[[frozenset[str]], object]
"""Stores the files of the records but those with these keys, which were not stored."""


@dataclass(frozen=True, slots=True)
class SeenItem:
    """An item that was read, and the key of its record; the key is empty if it has none."""

    container: str
    ref: str
    mark: str
    stream: str
    key: str


@dataclass(slots=True)
class SyncBatch:
    """What a source read between two states. ``ends_pass``: it has looked at everything once.

    ``records`` have their data as JSON. ``gone`` has containers and refs, and whether the record stays whatever the owner chose.
    """

    records: list[tuple[RecordHeader, bytes]] = field(default_factory=list)
    outdated: list[StaleRecords] = field(default_factory=list)
    seen: list[SeenItem] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    gone: list[tuple[str, str, bool]] = field(default_factory=list)
    traffic: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    ends_pass: bool = False


def use_twins(
    batch: SyncBatch, source: InstalledSource, *, owner_id: str, connection_id: str
) -> frozenset[str]:
    """Give records of a batch the keys of their stored twins, and leave out their parts and files.

    Returns the keys of which files are left out. A record that is stored under its own key keeps that.
    """
    twins = dict[str, str]()
    for name in {seen.stream for seen in batch.seen if seen.key}:
        records = {each.key: data for each, data in batch.records if each.stream == name}
        stored = stored_keys.existing(connection_id, name, records)
        target = load_one_target(owner_id, connection_id=connection_id, stream=name)
        twins |= stored_keys.find_twins(
            target.find(connection_id, stream=name).stream,
            {key: orjson.loads(data) for key, data in records.items() if key not in stored},
            connection_id=connection_id,
            prefix=source.twin_prefix,
        )
    if not twins:
        return frozenset()
    # A part of a record has the key of the whole, a dot and more.
    parts = {each.key for each, _ in batch.records if each.key.partition(".")[0] in twins}
    left_out = parts - twins.keys()
    batch.records = [
        _rename(each, data, twins[each.key]) if each.key in twins else (each, data)
        for each, data in batch.records
        if each.key not in left_out
    ]
    batch.seen = [replace(each, key=twins.get(each.key, each.key)) for each in batch.seen]
    return frozenset(left_out) | twins.keys()


def _rename(record: RecordHeader, data: bytes, key: str) -> tuple[RecordHeader, bytes]:
    renamed: dict[str, Any] = {**orjson.loads(data), "id": key}
    renamed.pop(BLOB_REFERENCE, None)
    return replace(record, key=key), orjson.dumps(renamed)


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


class SyncStopped(Exception):  # noqa: N818 - not an error
    """The owner paused or erased the connection, or another process reads it."""


def store_batch(
    account: SourceAccount,
    batch: SyncBatch,
    source: InstalledSource,
    *,
    now: datetime,
    store_files: StoreFiles,
    on_rejected: Callable[[str, Receipt], object],
) -> IngestResult:
    """Store a batch and its state, and set both in ``account``.

    ``on_rejected`` gets the key of each record that was not stored. Raises ``SyncStopped`` and
    ``IngestStorageError``; nothing is stored then.
    """
    with storage_errors(), transaction.atomic():
        _require_current(account)
        writer = _BatchWriter(account, batch, source, now)
        result = writer.write()
        store_files(frozenset({key for key, _ in writer.rejected} | writer.left_out))
        held = writer.held if batch.ends_pass else account.held_deletions
        _save_state(account, batch, held)
    for key, receipt in writer.rejected:
        on_rejected(key, receipt)
    account.state, account.version = dict(batch.state), account.version + 1
    account.traffic, account.held_deletions = dict(batch.traffic), held
    account.pass_number += batch.ends_pass
    return result


def known_items(
    connection_id: str, container: str, refs: Collection[str] | None
) -> list[tuple[str, str]]:
    """Return (ref, mark) of the items of a container, or of those with these refs."""
    rows = SyncedItem.unscoped.filter(
        connection_id=connection_id, container=container, gone_pass__isnull=True
    )
    if refs is not None:
        rows = rows.filter(ref__in=list(refs))
    return list(rows.order_by("ref").values_list("ref", "mark"))


def count_items(connection_id: str) -> int:
    return SyncedItem.unscoped.filter(connection_id=connection_id, gone_pass__isnull=True).count()


def _require_current(account: SourceAccount) -> None:
    try:
        locked = lock_connection(account.connection_id)
    except ApiException:
        raise SyncStopped("the connection was erased") from None
    if locked.status not in SYNCED_STATUSES:
        raise SyncStopped("the connection is paused")


def _save_state(account: SourceAccount, batch: SyncBatch, held: Mapping[str, Any] | None) -> None:
    rows = SourceAccount.unscoped.filter(
        connection_id=account.connection_id, version=account.version, credential__isnull=False
    )
    saved = rows.update(
        state=batch.state,
        traffic=batch.traffic,
        held_deletions=held,
        version=F("version") + 1,
        pass_number=F("pass_number") + int(batch.ends_pass),
    )
    if not saved:
        raise SyncStopped("the account changed, or another process reads it")


@dataclass(slots=True)
class _BatchWriter:
    """Turns one batch into lines, stores them, and keeps the notes of its items."""

    account: SourceAccount
    batch: SyncBatch
    source: InstalledSource
    now: datetime
    rejected: list[tuple[str, Receipt]] = field(default_factory=list)
    lines: list[NdjsonLine] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    held: dict[str, Any] | None = None
    left_out: frozenset[str] = frozenset()

    def write(self) -> IngestResult:
        owner_id, pk = self.account.connection.owner_id, self.account.connection_id
        if self.source.twin_prefix and self.batch.records:
            self.left_out = use_twins(self.batch, self.source, owner_id=owner_id, connection_id=pk)
        keys = {seen.key for seen in self.batch.seen if seen.key}
        before: dict[str, list[SyncedItem]] = defaultdict(list)
        for item in self._items.filter(record_key__in=list(keys)):
            before[item.record_key].append(item)
        existing = {
            (stream, key)
            for stream in {seen.stream for seen in self.batch.seen}
            for key in self._existing(stream, keys)
        }
        self._add_records(before)
        for each in self.batch.outdated:
            data = {"keep": each.keep, "from": each.first}
            self._add("prune", each.stream, each.key, data=data)
        self._add_changes()
        self._add_gone()
        if self.batch.ends_pass:
            self._add_deletions()
        result = ingest_in_transaction(
            self.lines, owner_id=owner_id, now=self.now, on_receipt=self._on_receipt
        )
        self._save_items(before, existing)
        return result

    def _existing(self, stream: str, keys: Collection[str]) -> set[str]:
        pk = self.account.connection_id
        if stream not in self.source.dependents:
            return stored_keys.existing(pk, stream, keys)
        below = ids_below(RecordId(pk, stream, key) for key in keys)
        return {self.source.item_key(stream, ref.record_key) for ref in below}

    @property
    def _items(self) -> QuerySet[SyncedItem]:
        return SyncedItem.unscoped.filter(connection_id=self.account.connection_id)

    def _add(self, op: str, stream: str, key: str, **members: Any) -> None:
        address = {"op": op, "stream": stream, "key": key, **members}
        address["connection_id"] = self.account.connection_id
        self._add_line(key, orjson.dumps(address))

    def _add_line(self, key: str, content: bytes) -> None:
        self.keys.append(key)
        self.lines.append(NdjsonLine(len(self.lines) + 1, content))

    def _add_records(self, before: Mapping[str, Sequence[SyncedItem]]) -> None:
        """Add the records. The first of several containers of a record stays in it."""
        containers = {
            key: {item.container for item in items if item.gone_pass is None}
            for key, items in before.items()
        }
        elsewhere: set[str] = set()
        for seen in self.batch.seen:
            places = containers.setdefault(seen.key, set())
            if places - {seen.container}:
                elsewhere.add(seen.key)
            places.add(seen.container)
        for record, data in self.batch.records:
            only = self.source.volatile.get(record.stream)
            if only is not None and record.key in elsewhere:
                only = ()
            content = upsert_line(record, data, connection_id=self.account.connection_id, only=only)
            self._add_line(record.key, content)

    def _add_changes(self) -> None:
        by_container: dict[str, dict[str, Change]] = defaultdict(dict)
        for change in self.batch.changes:
            by_container[change.container][change.ref] = change
        for container, changes in by_container.items():
            items = list(self._items.filter(container=container, ref__in=list(changes)))
            for item in items:
                if item.record_key and (fields := changes[item.ref].fields):
                    self._add("patch", item.stream, item.record_key, data=fields)
            for mark in {change.mark for change in changes.values()}:
                refs = [ref for ref, change in changes.items() if change.mark == mark]
                self._items.filter(container=container, ref__in=refs).update(mark=mark)

    def _add_gone(self) -> None:
        """Note which items are gone; records that another container has are moved there."""
        refs: dict[tuple[str, bool], list[str]] = defaultdict(list)
        for container, ref, keeps_record in self.batch.gone:
            refs[container, keeps_record].append(ref)
        for (container, keeps_record), each in refs.items():
            items = self._items.filter(container=container, ref__in=each, gone_pass__isnull=True)
            gone = [item.record_key for item in items if item.record_key]
            kept = {"is_ours": False} if keeps_record else {}
            items.update(gone_pass=self.account.pass_number, **kept)
            remaining = self._items.filter(record_key__in=gone, gone_pass__isnull=True)
            seen_now = [item for item in self.batch.seen if item.key in set(gone)]
            others = {(item.stream, item.record_key): item.container for item in remaining}
            others |= {(item.stream, item.key): item.container for item in seen_now}
            if self.source.container_field:
                for (stream, key), other in others.items():
                    self._add("patch", stream, key, data={self.source.container_field: other})

    def _add_deletions(self) -> None:
        """Delete what earlier passes missed, where the owner chose it, or ask the owner first.

        An item is gone for a pass before, so that a message on its way from one folder to another is
        not deleted.
        """
        account, seen = self.account, {seen.key for seen in self.batch.seen}
        doomed = list(_doomed(account, seen)) if account.is_mirror else []
        asked = [item for item in doomed if (item.gone_pass or 0) > account.allowed_pass]
        if containers := _too_many(account, asked):
            self.held = {
                "through": max(item.gone_pass or 0 for item in asked),
                "containers": containers,
                "since": (account.held_deletions or {}).get("since", self.now.isoformat()),
            }
            doomed = [item for item in doomed if (item.gone_pass or 0) <= account.allowed_pass]
        for item in doomed:
            self._add("delete", item.stream, item.record_key)
            for stream in self.source.dependents:
                self._add("prune", stream, item.record_key, data={"keep": []})
        past = self._items.filter(gone_pass__lt=account.pass_number)
        if self.held is not None:
            past = past.filter(gone_pass__lte=account.allowed_pass)
        past.delete()

    def _on_receipt(self, receipt: Receipt) -> None:
        if receipt.code not in NOTICES:
            self.rejected.append((self.keys[receipt.line - 1], receipt))

    def _save_items(
        self, before: Mapping[str, Sequence[SyncedItem]], existing: Collection[tuple[str, str]]
    ) -> None:
        erased = {key for key, each in self.rejected if each.code is ReceiptCode.SUPPRESSED}
        ours = {key for key, items in before.items() if any(item.is_ours for item in items)}
        # An item may be listed twice.
        latest = {(seen.container, seen.ref): seen for seen in self.batch.seen}
        SyncedItem.unscoped.bulk_create(
            (
                SyncedItem(
                    connection_id=self.account.connection_id,
                    container=seen.container,
                    ref=seen.ref,
                    stream=seen.stream,
                    record_key="" if seen.key in erased else seen.key,
                    mark=seen.mark,
                    is_ours=seen.key in ours or (seen.stream, seen.key) not in existing,
                    seen_at=self.now,
                )
                for seen in latest.values()
            ),
            update_conflicts=True,
            unique_fields=["owner", "connection", "container", "ref"],
            update_fields=["stream", "record_key", "mark", "gone_pass", "seen_at"],
        )
