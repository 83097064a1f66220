"""Write one batch of records in one transaction, with change entries, search text and counters.

If PostgreSQL rejects a value, the batch is halved until the record is found; it gets a receipt.
"""

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, DataError, transaction
from django.db.models import F

from evidence import limits
from evidence.errors import IngestStorageError
from evidence.models.connections import Connection, StreamState
from evidence.write import rows
from evidence.write.batches import ChangeSet, Op, PreparedRecord, RecordVersion, validate
from evidence.write.locks import LockedConnection, lock_connections
from evidence.write.ndjson import LineRejectedError, Receipt, ReceiptCode
from evidence.write.rows import StoredRecord, changed_fields, derive
from evidence.write.stored_keys import (
    find_erased_twins,
    find_suppressed,
    is_erased_twin,
    suppress_keys,
)

logger = logging.getLogger(__name__)

# SQLSTATE classes caused by values: data, integrity and program limits.
_VALUE_ERRORS = ("22", "23", "54")
DELETION_PERIOD = timedelta(days=1)


@dataclass(slots=True)
class IngestRun:
    """State shared by the batches of one import.

    ``first_seq`` maps a connection to its latest change number before this import wrote to it.
    With ``bounds_deletions``, the lines are those of a collector, see ``_deletions_left``.
    """

    now: datetime
    replace: bool = False
    bounds_deletions: bool = False
    first_seq: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class WriteResult:
    """Outcome of a batch, as counts and receipts, and the lines of new and changed records.

    A record of which only undeclared fields changed counts as unchanged.
    """

    created: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    receipts: list[Receipt] = field(default_factory=list)
    new_lines: list[int] = field(default_factory=list)
    changed_lines: list[int] = field(default_factory=list)

    @property
    def written(self) -> int:
        return self.created + self.updated + self.deleted

    def add_counts(self, other: "WriteResult") -> None:
        self.created += other.created
        self.updated += other.updated
        self.deleted += other.deleted
        self.unchanged += other.unchanged

    def __iadd__(self, other: "WriteResult") -> "WriteResult":
        self.add_counts(other)
        self.receipts += other.receipts
        self.new_lines += other.new_lines
        self.changed_lines += other.changed_lines
        return self


@contextmanager
def storage_errors() -> Iterator[None]:
    """Replace a ``DatabaseError`` by ``IngestStorageError``, and log its SQLSTATE only.

    The database's message and traceback may quote a record.
    """
    try:
        yield
    except DatabaseError as error:
        logger.error("a batch was not stored: SQLSTATE %s", _sqlstate(error))  # noqa: TRY400
        raise IngestStorageError from None


def write_batch(records: Sequence[PreparedRecord], *, run: IngestRun) -> WriteResult:
    """Store a batch durably before returning.

    Raises ``IngestStorageError`` if the database fails or the declaration or languages changed.
    """
    if not records:
        return WriteResult()
    with storage_errors():
        try:
            with transaction.atomic():
                return _write(records, run)
        except DatabaseError as error:
            # psycopg refuses some values itself, without a SQLSTATE.
            if not (isinstance(error, DataError) or _sqlstate(error).startswith(_VALUE_ERRORS)):
                raise
    if len(records) == 1:
        return WriteResult(receipts=[Receipt(records[0].entry.line, ReceiptCode.NOT_STORABLE)])
    middle = len(records) // 2
    result = write_batch(records[:middle], run=run)
    result += write_batch(records[middle:], run=run)
    return result


def _sqlstate(error: DatabaseError) -> str:
    return getattr(error.__cause__, "sqlstate", None) or ""


def _write(records: Sequence[PreparedRecord], run: IngestRun) -> WriteResult:
    connections = lock_connections({record.ref.connection_id for record in records})
    for record in records:
        _require_current_target(record, connections)
    for locked in connections.values():
        run.first_seq.setdefault(locked.connection_id, locked.change_seq)
    erased = set(_find_erased(records, connections))
    refs = {ref for record in records for ref in (record.ref, *record.replaced)}
    pruned = [record.ref for record in records if record.entry.op is Op.PRUNE]
    refs.update(rows.ids_below(pruned))
    changes = ChangeSet(connections, run.now, rows.stored_records(refs))
    twins = find_erased_twins(
        (record.ref, record.entry.data, record.entry.target.stream.twin_fields)
        for record in records
        if _may_be_suppressed(record.ref, connections)
    )
    writer = _Writer(run, changes, erased, twins, _group_by_prefix(refs if pruned else ()))
    for record in records:
        writer.apply(record)
    writer.changes.save()
    for (connection_id, stream), count in writer.bounded.items():
        states = StreamState.unscoped.filter(connection_id=connection_id, stream=stream)
        states.update(removed=F("removed") + count)
    return writer.result


def _deletions_left(connection_id: str, stream: str, now: datetime) -> int:
    """Return how many records of a stream collectors may delete today: 50, or a fifth of them.

    The connection is locked, so that no other import counts at the same time.
    """
    states = StreamState.unscoped.filter(connection_id=connection_id, stream=stream)
    state = states.first()
    if state is None:
        return 0
    if state.removed_since is None or state.removed_since <= now - DELETION_PERIOD:
        states.update(removed=0, removed_of=F("record_count"), removed_since=now)
        state.removed, state.removed_of = 0, state.record_count
    most = max(limits.COLLECTOR_DELETIONS, state.removed_of // limits.COLLECTOR_DELETION_PART)
    return max(0, most - state.removed)


def _require_current_target(
    record: PreparedRecord, connections: dict[str, LockedConnection]
) -> None:
    current, target = connections.get(record.ref.connection_id), record.entry.target
    if current and (current.declaration_id, tuple(current.languages)) != (
        target.declaration_id,
        target.languages,
    ):
        raise IngestStorageError(
            message="The declaration or languages changed during the import. Send it again;"
            " nothing is stored twice."
        )


def _find_erased(
    records: Sequence[PreparedRecord], connections: dict[str, LockedConnection]
) -> frozenset[rows.RecordId]:
    """Return records that the owner erased for good."""
    return find_suppressed(
        ref
        for record in records
        if _may_be_suppressed(record.ref, connections)
        for ref in (record.ref, *record.replaced, *record.wholes)
    )


def _may_be_suppressed(ref: rows.RecordId, connections: dict[str, LockedConnection]) -> bool:
    return ref.connection_id in connections and connections[ref.connection_id].suppresses


def _group_by_prefix(refs: Iterable[rows.RecordId]) -> dict[rows.RecordId, list[rows.RecordId]]:
    """Return the ids by their own key, and by each part of it that ends before a dot."""
    groups: dict[rows.RecordId, list[rows.RecordId]] = defaultdict(list)
    for ref in refs:
        key = ref.record_key
        ends = [match.start() for match in re.finditer(r"\.", key)]
        for end in (*ends, len(key)):
            groups[ref._replace(record_key=key[:end])].append(ref)
    return groups


@dataclass(slots=True)
class _Writer:
    """Applies prepared records to a change set, in order."""

    run: IngestRun
    changes: ChangeSet
    erased: set[rows.RecordId]
    twins: frozenset[rows.RecordId]
    below: dict[rows.RecordId, list[rows.RecordId]]
    result: WriteResult = field(default_factory=WriteResult)
    bounded: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Deletions that count against the bound of collectors, by connection and stream."""
    _left: dict[tuple[str, str], int] = field(default_factory=dict)

    def apply(self, record: PreparedRecord) -> None:
        try:
            self._require_writable(record)
            if record.entry.op is Op.PRUNE:
                self._prune(record)
            elif record.entry.op is Op.PATCH:
                self._patch(record, record.entry.data)
            elif record.derived is None:
                self._delete(record)
            else:
                self._upsert(
                    record,
                    RecordVersion(record.entry.data, record.entry.emitted_at, record.derived),
                )
        except LineRejectedError as error:
            self._receipt(record, error.code)

    def _require_writable(self, record: PreparedRecord) -> None:
        locked = self.changes.connections.get(record.ref.connection_id)
        if locked is None:
            raise LineRejectedError(ReceiptCode.CONNECTION_NOT_FOUND)
        if locked.status == Connection.Status.REVOKED:
            raise LineRejectedError(ReceiptCode.CONNECTION_NOT_WRITABLE)

    def _prune(self, record: PreparedRecord) -> None:
        keep, first = record.entry.data["keep"], record.entry.data.get("from", "")
        below = (ref for ref in self.below.get(record.ref, ()) if ref.record_key not in keep)
        stale = (ref for ref in below if ref.record_key >= first or ref == record.ref)
        self._delete_stored(record, stale)

    def _delete_stored(self, record: PreparedRecord, refs: Iterable[rows.RecordId]) -> None:
        for ref in refs:
            if ref in self.changes.records:
                self.changes.delete(ref, emitted_at=record.entry.emitted_at)
                self.result.deleted += 1

    def _delete(self, record: PreparedRecord) -> None:
        if record.ref not in self.changes.records:
            self.result.unchanged += 1
            return
        self._require_mutable(record)
        if self.run.bounds_deletions:
            self._count_deletion(record.ref)
        self.changes.delete(record.ref, emitted_at=record.entry.emitted_at)
        self.result.deleted += 1

    def _count_deletion(self, ref: rows.RecordId) -> None:
        place = (ref.connection_id, ref.stream)
        if place not in self._left:
            self._left[place] = _deletions_left(*place, self.run.now)
        if self.bounded[place] >= self._left[place]:
            raise LineRejectedError(ReceiptCode.TOO_MANY_DELETIONS)
        self.bounded[place] += 1

    def _upsert(self, record: PreparedRecord, version: RecordVersion) -> None:
        current = self.changes.records.get(record.ref)
        replaced = record.replaced
        if not self.erased.isdisjoint((record.ref, *replaced)):
            if record.ref not in self.erased:  # an earlier key of the record was erased
                suppress_keys([record.ref], self.run.now)
            raise LineRejectedError(ReceiptCode.SUPPRESSED)
        is_new = self.changes.records.keys().isdisjoint((record.ref, *replaced))
        if is_new and self._is_erased(record, version.data):
            raise LineRejectedError(ReceiptCode.SUPPRESSED)
        self._delete_stored(record, replaced)
        if current is None:
            self.changes.create(record.ref, version)
            self.result.created += 1
            self.result.new_lines.append(record.entry.line)
        elif (only := record.entry.only) is not None:
            data = version.data
            self._patch(record, {name: data[name] for name in only if name in data})
        elif unknown := record.entry.unknown:
            known = {name: value for name, value in version.data.items() if name not in unknown}
            self._patch(record, known)
        else:
            self._update(record, current, version)

    def _is_erased(self, record: PreparedRecord, data: Mapping[str, Any]) -> bool:
        """Return whether a new record is a part of an erased one, or the twin of one."""
        if record.ref in self.twins:
            fields = record.entry.target.stream.twin_fields
            if is_erased_twin(record.ref, data, fields, self.run.now):
                self.erased.add(record.ref)
                return True
        return bool(self.erased) and not self.erased.isdisjoint(record.wholes)

    def _patch(self, record: PreparedRecord, fields: Mapping[str, Any]) -> None:
        """Change some fields of a stored record."""
        current = self.changes.records.get(record.ref)
        if current is None or not changed_fields(current.data, data := {**current.data, **fields}):
            self.result.unchanged += 1
            return
        validate(data, record.entry.target)
        derived = derive(record.entry.target, key=record.ref.record_key, data=data)
        self._update(record, current, RecordVersion(data, record.entry.emitted_at, derived))

    def _update(
        self, record: PreparedRecord, current: StoredRecord, version: RecordVersion
    ) -> None:
        changed = changed_fields(current.data, version.data)
        if not changed:
            self.result.unchanged += 1
            return
        self._require_mutable(record)
        is_patch = record.entry.op is Op.PATCH or record.entry.only is not None
        if not is_patch and current.change_seq > self.run.first_seq[record.ref.connection_id]:
            self._receipt(record, ReceiptCode.DUPLICATE_KEY)
        target = record.entry.target
        is_declared_changed = not target.stream.fields.keys().isdisjoint(changed)
        self.changes.update(
            record.ref,
            version,
            changed=changed,
            is_search_changed=not target.search_fields.isdisjoint(changed),
            is_declared_changed=is_declared_changed,
        )
        if not is_declared_changed:
            self.result.unchanged += 1
            return
        self.result.updated += 1
        self.result.changed_lines.append(record.entry.line)

    def _require_mutable(self, record: PreparedRecord) -> None:
        replaces = self.run.replace or self.changes.connections[record.ref.connection_id].replaces
        if record.entry.target.is_append_only and not replaces:
            raise LineRejectedError(ReceiptCode.APPEND_ONLY_CONFLICT)

    def _receipt(self, record: PreparedRecord, code: ReceiptCode) -> None:
        self.result.receipts.append(Receipt(record.entry.line, code))
