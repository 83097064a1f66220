"""Validate lines and group them into batches without a database, then apply and save each batch.

Each operation sees the result of the previous one and adds its own change entry, so the batch size
does not affect the outcome. The connections stay locked until the transaction ends.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from evidence.declarations.record_validation import InvalidRecordError, record_key
from evidence.declarations.schema_validation import child_path
from evidence.declarations.values import parse_instant
from evidence.models.owners import current_owner
from evidence.models.records import RecordChange
from evidence.write import app_data, rows, vectors
from evidence.write.locks import LockedConnection, save_change_numbers
from evidence.write.ndjson import LineRejectedError, NdjsonLine, Receipt, ReceiptCode, parse_object
from evidence.write.rows import (
    CountChange,
    Derived,
    RecordId,
    Row,
    StoredRecord,
    derive,
    emitted_times,
    record_row,
    save_counts,
)
from evidence.write.targets import Target, TargetRegistry

# Exports contain `connector_key` and `type`; the connection already implies both.
_STREAM_MEMBERS = frozenset(
    {"key", "data", "emitted_at", "op", "connection_id", "stream", "connector_key", "type"}
)
# Only for lines that importers and sources make, which name their connection.
_IMPORT_MEMBERS = _STREAM_MEMBERS | {"replaces", "only", "unknown"}


class Op(StrEnum):
    UPSERT = "upsert"
    DELETE = "delete"
    PRUNE = "prune"
    PATCH = "patch"


# Calling an enumeration, or iterating over it, takes as long as parsing a short line.
_IMPORT_OPS: Mapping[str, Op] = {op.value: op for op in Op}
_STREAM_OPS: Mapping[str, Op] = {op.value: op for op in (Op.UPSERT, Op.DELETE)}


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """The connection and stream of lines that do not name their own."""

    connection_id: str
    stream: str


class IngestEntry(NamedTuple):
    """The validated operation of one line. ``data`` is empty for a deletion.

    An upsert deletes the records with the keys in ``replaces``, and is rejected if the owner erased
    one of them. With ``only``, an upsert of a stored record changes these fields alone,
    with ``unknown`` all others. ``Op.PATCH``
    changes the fields in ``data`` of a stored record, and nothing else. ``Op.PRUNE`` deletes the record ``key`` and the records whose keys begin with it
    and a dot, from the key ``data["from"]`` on. It keeps the keys in ``data["keep"]``.
    """

    line: int
    target: Target
    key: str
    op: Op
    data: dict[str, Any]
    emitted_at: datetime
    replaces: tuple[str, ...] = ()
    only: frozenset[str] | None = None
    unknown: frozenset[str] = frozenset()


def parse_entry(
    content: bytes,
    *,
    line: int,
    targets: TargetRegistry,
    stream_address: StreamAddress | None,
    now: datetime,
) -> IngestEntry:
    """Parse and validate a line; ``emitted_at`` defaults to ``now``. Raises LineRejectedError."""
    envelope = parse_object(content)
    is_import = stream_address is None
    if not envelope.keys() <= (_IMPORT_MEMBERS if is_import else _STREAM_MEMBERS):
        raise LineRejectedError(ReceiptCode.INVALID_ENVELOPE)
    target = _find_target(envelope, targets, stream_address)
    op = _parse_op(envelope, allowed=_IMPORT_OPS if is_import else _STREAM_OPS)
    data = envelope.get("data")
    if not isinstance(data, dict) and not (op is Op.DELETE and data is None):
        raise LineRejectedError(ReceiptCode.INVALID_RECORD, path="$.data")
    key = _record_key(envelope.get("key"), {} if op in (Op.PRUNE, Op.PATCH) else data or {}, target)
    emitted_at = _parse_emitted_at(envelope, now)
    if op is Op.DELETE:
        return IngestEntry(line, target, key, op, {}, emitted_at)
    if op is Op.PRUNE:
        keep = frozenset(map(str, (data or {}).get("keep", ())))
        return IngestEntry(line, target, key, op, (data or {}) | {"keep": keep}, emitted_at)
    if op is Op.PATCH:
        return IngestEntry(line, target, key, op, data or {}, emitted_at)
    validate(data or {}, target)
    replaces = tuple(map(str, envelope.get("replaces", ())))
    only = None if envelope.get("only") is None else frozenset(map(str, envelope["only"]))
    unknown = frozenset(map(str, envelope.get("unknown", ())))
    return IngestEntry(line, target, key, op, data or {}, emitted_at, replaces, only, unknown)


def _find_target(
    envelope: Mapping[str, Any], targets: TargetRegistry, stream_address: StreamAddress | None
) -> Target:
    if stream_address is None:
        connection_id = _text_member(envelope, "connection_id")
        return targets.find(connection_id, stream=_text_member(envelope, "stream"))
    for name in ("connection_id", "stream"):
        if name in envelope and envelope[name] != getattr(stream_address, name):
            raise LineRejectedError(ReceiptCode.INVALID_ENVELOPE, path=f"$.{name}")
    return targets.find(stream_address.connection_id, stream=stream_address.stream)


def _text_member(envelope: Mapping[str, Any], name: str) -> str:
    value = envelope.get(name)
    if not isinstance(value, str):
        raise LineRejectedError(ReceiptCode.INVALID_ENVELOPE, path=f"$.{name}")
    return value


def _parse_op(envelope: Mapping[str, Any], *, allowed: Mapping[str, Op]) -> Op:
    name = envelope.get("op", "upsert")
    op = allowed.get(name) if isinstance(name, str) else None
    if op is None:
        raise LineRejectedError(ReceiptCode.INVALID_OP, path="$.op")
    return op


def _parse_emitted_at(envelope: Mapping[str, Any], now: datetime) -> datetime:
    if envelope.get("emitted_at") is None:
        return now
    moment = parse_instant(envelope["emitted_at"])
    if moment is None:
        raise LineRejectedError(ReceiptCode.INVALID_EMITTED_AT, path="$.emitted_at")
    return moment


def validate(data: dict[str, Any], target: Target) -> None:
    """Raise ``LineRejectedError`` if the data does not match the schema of its stream."""
    error = target.validator.find_error(data)
    if error is None:
        return
    path, _, reason = error.partition(": ")
    code = ReceiptCode.NESTED_TOO_DEEPLY if reason == "depth" else ReceiptCode.INVALID_RECORD
    raise LineRejectedError(code, path="$.data" + path.removeprefix("$"), reason=reason)


def _record_key(given_key: object, data: Mapping[str, Any], target: Target) -> str:
    try:
        return record_key(target.stream, data, given_key)
    except InvalidRecordError as error:
        raise LineRejectedError(ReceiptCode(error.code), path=error.path) from None


def _unparsed_times(record: "PreparedRecord") -> list[Receipt]:
    """Return a receipt for each declared time of a record that does not parse."""
    if record.derived is None:
        return []
    entry = record.entry
    names = entry.target.validator.find_unparsed_times(entry.data)
    code = ReceiptCode.TIME_NOT_USED
    return [Receipt(entry.line, code, child_path("$.data", name)) for name in names]


BATCH_LINES = 1_000
BATCH_BYTES = 2 * 1024 * 1024


class PreparedRecord(NamedTuple):
    """An entry with its derived columns; None unless it is an upsert."""

    entry: IngestEntry
    ref: RecordId
    derived: Derived | None

    @property
    def replaced(self) -> list[RecordId]:
        keys = self.entry.replaces
        return [self.ref._replace(record_key=key) for key in keys] if keys else []

    @property
    def wholes(self) -> list[RecordId]:
        """The records that this one is a part of, such as the message of an attachment.

        The key of a part begins with that of its whole and a dot.
        """
        relations = self.entry.target.stream.relations.values()
        keys = {each.stream: self.entry.data.get(each.foreign_key) for each in relations}
        return [
            self.ref._replace(stream=stream, record_key=str(key))
            for stream, key in keys.items()
            if key and self.ref.record_key.startswith(f"{key}.")
        ]


@dataclass(slots=True)
class Batch:
    """Consecutive lines: the valid ones prepared, the others as receipts."""

    records: list[PreparedRecord] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    lines: int = 0
    size: int = 0

    @property
    def is_full(self) -> bool:
        return self.lines >= BATCH_LINES or self.size >= BATCH_BYTES


@dataclass(frozen=True, slots=True)
class BatchPreparer:
    """Prepares the records of one import, batch by batch."""

    targets: TargetRegistry
    stream_address: StreamAddress | None
    now: datetime

    def batches(self, lines: Iterable[NdjsonLine]) -> Iterator[Batch]:
        batch = Batch()
        for line in lines:
            self._add(batch, line)
            if batch.is_full:
                yield batch
                batch = Batch()
        if batch.lines:
            yield batch

    def _add(self, batch: Batch, line: NdjsonLine) -> None:
        batch.lines += 1
        batch.size += len(line.content or b"")
        try:
            record = self._prepare(line)
            batch.records.append(record)
            batch.receipts += _unparsed_times(record)
        except LineRejectedError as error:
            batch.receipts.append(Receipt(line.number, error.code, error.path, error.reason))

    def _prepare(self, line: NdjsonLine) -> PreparedRecord:
        if line.content is None:
            raise LineRejectedError(ReceiptCode.LINE_TOO_LONG)
        entry = parse_entry(
            line.content,
            line=line.number,
            targets=self.targets,
            stream_address=self.stream_address,
            now=self.now,
        )
        target = entry.target
        ref = RecordId(target.connection_id, target.stream.name, entry.key)
        if entry.op is not Op.UPSERT:
            return PreparedRecord(entry, ref, None)
        return PreparedRecord(entry, ref, derive(target, key=entry.key, data=entry.data))


Kind = RecordChange.Kind


class RecordVersion(NamedTuple):
    """A version of a record, as one line contains it."""

    data: Mapping[str, Any]
    emitted_at: datetime
    derived: Derived

    @property
    def consent_time(self) -> datetime | None:
        return self.derived.consent_time


@dataclass(slots=True)
class ChangeSet:
    """Pending operations on ``records``, loaded under the locks of ``connections``."""

    connections: Mapping[str, LockedConnection]
    now: datetime
    records: dict[RecordId, StoredRecord]
    existing_ids: Collection[RecordId] = field(init=False)
    record_rows: dict[RecordId, Row | None] = field(default_factory=dict)
    search_rows: dict[RecordId, Row | None] = field(default_factory=dict)
    stale_vectors: dict[RecordId, set[str] | None] = field(default_factory=dict)
    new_times: dict[RecordId, datetime | None] = field(default_factory=dict)
    change_rows: list[Row] = field(default_factory=list)
    counts: dict[tuple[str, str], CountChange] = field(
        default_factory=lambda: defaultdict(CountChange)
    )

    def __post_init__(self) -> None:
        self.existing_ids = frozenset(self.records)

    def create(self, ref: RecordId, version: RecordVersion) -> None:
        """Add a record that does not exist."""
        seq = self._add_change(ref, Kind.CREATED)
        self._set_row(
            ref,
            version,
            StoredRecord(version.data, version.emitted_at, {}, version.consent_time, seq),
        )
        self.search_rows[ref] = version.derived.search
        self._count(ref, 1, version.emitted_at)

    def update(
        self,
        ref: RecordId,
        version: RecordVersion,
        *,
        changed: list[str],
        is_search_changed: bool,
        is_declared_changed: bool,
    ) -> None:
        """Replace a record that differs in the fields ``changed``.

        ``is_search_changed``: its search text differs. ``is_declared_changed``: a field that the
        declaration names differs.
        """
        current = self.records[ref]
        emitted_at, times = emitted_times(
            current, data=version.data, changed=changed, emitted_at=version.emitted_at
        )
        seq = self._add_change(ref, Kind.UPDATED, current.consent_time, changed)
        self._set_row(
            ref, version, StoredRecord(version.data, emitted_at, times, version.consent_time, seq)
        )
        if is_search_changed:
            self.search_rows[ref] = version.derived.search
        self._mark_stale(ref, changed)
        if version.consent_time != current.consent_time:
            self.new_times[ref] = version.consent_time
        self._count(ref, 0, version.emitted_at, is_declared=is_declared_changed)

    def delete(self, ref: RecordId, *, emitted_at: datetime | None) -> None:
        """Delete a record that exists, and leave a tombstone."""
        current = self.records.pop(ref)
        self._add_change(ref, Kind.DELETED, current.consent_time)
        self.record_rows[ref] = self.search_rows[ref] = None
        self.stale_vectors[ref] = None
        self._count(ref, -1, emitted_at)

    def save(self) -> None:
        """Save everything with one statement per table and kind of change."""
        if not self.change_rows:
            return
        rows.delete_records(ref for ref in self.record_rows if ref in self.existing_ids)
        rows.delete_search_texts(ref for ref in self.search_rows if ref in self.existing_ids)
        vectors.delete_vectors(
            {
                ref: current
                for ref, current in self.stale_vectors.items()
                if ref in self.existing_ids
            }
        )
        deleted = [
            ref for ref, row in self.record_rows.items() if row is None and ref in self.existing_ids
        ]
        for data in app_data.registered():
            data.delete_records(deleted)
        vectors.update_times(
            {ref: at for ref, at in self.new_times.items() if ref in self.existing_ids}
        )
        rows.delete_blobs(ref for ref, row in self.record_rows.items() if row is None)
        rows.add_records(row for row in self.record_rows.values() if row is not None)
        rows.add_search_texts(row for row in self.search_rows.values() if row is not None)
        rows.add_changes(self.change_rows)
        save_counts(self.counts, now=self.now)
        save_change_numbers(self.connections.values())

    def _mark_stale(self, ref: RecordId, changed: list[str]) -> None:
        # Vectors of unchanged fields remain valid.
        stale_fields = self.stale_vectors.setdefault(ref, set())
        if stale_fields is not None:
            stale_fields.update(changed)

    def _set_row(self, ref: RecordId, version: RecordVersion, state: StoredRecord) -> None:
        self.records[ref] = state
        self.record_rows[ref] = record_row(version.derived, state)

    def _add_change(
        self,
        ref: RecordId,
        kind: Kind,
        consent_time: datetime | None = None,
        changed: Sequence[str] = (),
    ) -> int:
        seq = self.connections[ref.connection_id].next_seq()
        self.change_rows.append(
            (
                current_owner(),
                ref.connection_id,
                seq,
                ref.stream,
                ref.record_key,
                kind.value,
                list(changed) or None,
                consent_time,
                self.now,
            )
        )
        return seq

    def _count(
        self,
        ref: RecordId,
        added: int,
        emitted_at: datetime | None,
        *,
        is_declared: bool = True,
    ) -> None:
        count = self.counts[ref.connection_id, ref.stream]
        count.note(added, emitted_at=emitted_at, is_declared=is_declared)
