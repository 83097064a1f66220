"""Store what a source read, with its new state, in one transaction.

A source reads items (messages) of containers (folders). Several items can be one record: a message
that was copied, or that is in transit from one folder to another. Which record an item became is
kept in ``SyncedItem``, so that flags, moves and deletions need not read it again.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from django.db import transaction
from django.db.models import F, QuerySet

from evidence.errors import ApiException
from evidence.write import stored_keys
from evidence.write.ingest import IngestResult, ingest_in_transaction
from evidence.write.locks import lock_connection
from evidence.write.ndjson import NdjsonLine
from evidence.write.receipts import NOTICES, Receipt, ReceiptCode
from evidence.write.rows import RecordId, ids_below
from evidence.write.writer import storage_errors
from importers.models import SourceAccount, SyncedItem
from importers.sources.account_store import SYNCED_STATUSES
from importers.sources.sync_batch import (
    ItemChange,
    SyncBatch,
    SyncRules,
    choose_deletions,
    use_twins,
)


class SyncStopped(Exception):  # noqa: N818 - not an error
    """The owner paused or erased the connection, or another process reads it."""


StoreFiles = Callable[[frozenset[str]], object]
"""Stores the files of the records but those with these keys, which were not stored."""


def store_batch(
    account: SourceAccount,
    batch: SyncBatch,
    rules: SyncRules,
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
        writer = _BatchWriter(account, batch, rules, now)
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
    rules: SyncRules
    now: datetime
    rejected: list[tuple[str, Receipt]] = field(default_factory=list)
    lines: list[NdjsonLine] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    held: dict[str, Any] | None = None
    left_out: frozenset[str] = frozenset()

    def write(self) -> IngestResult:
        owner_id, pk = self.account.connection.owner_id, self.account.connection_id
        if self.rules.twin_prefix and self.batch.records:
            self.left_out = use_twins(self.batch, self.rules, owner_id=owner_id, connection_id=pk)
        keys = {seen.key for seen in self.batch.seen if seen.key}
        before = self._items_by_key(keys)
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
            self.lines,
            owner_id=owner_id,
            now=self.now,
            on_receipt=self._on_receipt,
        )
        self._save_items(before, existing)
        return result

    def _existing(self, stream: str, keys: Collection[str]) -> set[str]:
        pk = self.account.connection_id
        if stream not in self.rules.dependents:
            return stored_keys.existing(pk, stream, keys)
        below = ids_below(RecordId(pk, stream, key) for key in keys)
        return {self.rules.item_key(stream, ref.record_key) for ref in below}

    @property
    def _items(self) -> QuerySet[SyncedItem]:
        return SyncedItem.unscoped.filter(connection_id=self.account.connection_id)

    def _items_by_key(self, keys: Collection[str]) -> dict[str, list[SyncedItem]]:
        by_key: dict[str, list[SyncedItem]] = defaultdict(list)
        for item in self._items.filter(record_key__in=list(keys)):
            by_key[item.record_key].append(item)
        return by_key

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
        for record in self.batch.records:
            address: dict[str, Any] = {
                "op": "upsert",
                "connection_id": self.account.connection_id,
                "stream": record.stream,
                "key": record.key,
                "replaces": list(record.replaces),
                "unknown": list(record.unknown),
            }
            if record.stream in self.rules.volatile:
                fields = () if record.key in elsewhere else self.rules.volatile[record.stream]
                address["only"] = list(fields)
            # The last of several members with one name counts, see RecordFeed.
            content = b'{"data":' + record.data + b"," + orjson.dumps(address)[1:]
            self._add_line(record.key, content)

    def _add_changes(self) -> None:
        by_container: dict[str, dict[str, ItemChange]] = defaultdict(dict)
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
            if self.rules.container_field:
                for (stream, key), other in others.items():
                    self._add("patch", stream, key, data={self.rules.container_field: other})

    def _add_deletions(self) -> None:
        """Delete what earlier passes missed, where the owner chose it."""
        seen = {seen.key for seen in self.batch.seen}
        deletions = choose_deletions(self.account, seen=seen, now=self.now)
        for item in deletions.items:
            self._add("delete", item.stream, item.record_key)
            for stream in self.rules.dependents:
                self._add("prune", stream, item.record_key, data={"keep": []})
        self.held = deletions.held
        past = self._items.filter(gone_pass__lt=self.account.pass_number)
        if self.held is not None:
            past = past.filter(gone_pass__lte=self.account.allowed_pass)
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
