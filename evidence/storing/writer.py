"""One batch, one transaction: every record of it with its change entry, search text and counters.

A record that the database will not have although its line was good is found by halving the batch,
and gets a receipt like any other bad line.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from django.db import DatabaseError, connection, transaction

from evidence.errors import IngestStorageError
from evidence.models.connections import Connection
from evidence.models.digests import key_digest
from evidence.storing import rows
from evidence.storing.batches import Op, Prepared
from evidence.storing.change_set import Changes, Version
from evidence.storing.derivation import changed_fields
from evidence.storing.locks import Held, hold
from evidence.storing.receipts import Code, Receipt, Rejected

logger = logging.getLogger(__name__)

# Classes of SQLSTATE that blame the values: data, integrity and program limits.
_BLAMES_THE_VALUES = ("22", "23", "54")


@dataclass(slots=True)
class Run:
    """What stays the same from batch to batch. ``began`` is the number of the latest change of
    each connection before this run first wrote to it."""

    now: datetime
    replace: bool = False
    began: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Written:
    """What became of the records of a batch."""

    created: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    receipts: list[Receipt] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self.created + self.updated + self.deleted

    def __iadd__(self, other: "Written") -> "Written":
        self.created += other.created
        self.updated += other.updated
        self.deleted += other.deleted
        self.unchanged += other.unchanged
        self.receipts += other.receipts
        return self


@contextmanager
def failures_told() -> Iterator[None]:
    """Turns what the database cannot do into ``IngestStorageError``.

    The words of the error may quote a record, so only its code is logged.
    """
    try:
        yield
    except DatabaseError as error:
        # Without the traceback, which would quote what this leaves out.
        logger.error("a batch was not stored: SQLSTATE %s", _sqlstate(error))  # noqa: TRY400
        raise IngestStorageError from None


def write(records: Sequence[Prepared], *, run: Run) -> Written:
    """Stores a batch durably before it returns. Raises ``IngestStorageError`` when the database
    cannot, or when the batch was prepared under another declaration."""
    if not records:
        return Written()
    with failures_told():
        try:
            with transaction.atomic():
                return _write(records, run)
        except DatabaseError as error:
            if not _sqlstate(error).startswith(_BLAMES_THE_VALUES):
                raise
    if len(records) == 1:
        return Written(receipts=[Receipt(records[0].entry.line, Code.NOT_STORABLE)])
    middle = len(records) // 2
    written = write(records[:middle], run=run)
    written += write(records[middle:], run=run)
    return written


def _sqlstate(error: DatabaseError) -> str:
    return getattr(error.__cause__, "sqlstate", None) or ""


def _write(records: Sequence[Prepared], run: Run) -> Written:
    held = hold({record.ref.connection_id for record in records})
    for record in records:
        _require_same_meaning(record, held)
    for each in held.values():
        run.began.setdefault(each.connection_id, each.change_seq)
    erased = frozenset(_erased(records, held))
    states = rows.states({record.ref for record in records})
    writer = _Writer(run, Changes(held, run.now, states), erased)
    for record in records:
        writer.apply(record)
    writer.changes.save()
    return writer.written


def _require_same_meaning(record: Prepared, held: dict[str, Held]) -> None:
    """What the record was prepared under must still hold."""
    current, target = held.get(record.ref.connection_id), record.entry.target
    if current and (current.declaration_id, tuple(current.languages)) != (
        target.declaration_id,
        target.languages,
    ):
        raise IngestStorageError(
            message="The declaration or the languages changed during the import; sending it"
            " again is safe."
        )


def _erased(records: Sequence[Prepared], held: dict[str, Held]) -> Iterator[rows.Ref]:
    """The records that the owner erased for good."""
    wanted = {
        key_digest(ref.record_key, connection_id=ref.connection_id, stream=ref.stream): ref
        for ref in (record.ref for record in records)
        if ref.connection_id in held and held[ref.connection_id].suppresses
    }
    if not wanted:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT key_digest FROM evidence_suppression"
            " WHERE connection_id = ANY(%s) AND key_digest = ANY(%s)",
            [list(held), list(wanted)],
        )
        for (digest,) in cursor:
            yield wanted[bytes(digest)]


@dataclass(slots=True)
class _Writer:
    """Applies prepared records to changes, in their order."""

    run: Run
    changes: Changes
    erased: frozenset[rows.Ref]
    written: Written = field(default_factory=Written)

    def apply(self, record: Prepared) -> None:
        try:
            self._require_writable(record)
            if record.derived is None or record.entry.op is Op.DELETE:
                self._delete(record)
            else:
                self._upsert(
                    record, Version(record.entry.data, record.entry.emitted_at, record.derived)
                )
        except Rejected as refusal:
            self._receipt(record, refusal.code)

    def _require_writable(self, record: Prepared) -> None:
        held = self.changes.held.get(record.ref.connection_id)
        if held is None:
            raise Rejected(Code.CONNECTION_NOT_FOUND)
        if held.status == Connection.Status.REVOKED:
            raise Rejected(Code.CONNECTION_NOT_WRITABLE)

    def _delete(self, record: Prepared) -> None:
        if record.ref not in self.changes.states:
            self.written.unchanged += 1
            return
        self._require_mutable(record)
        self.changes.delete(record.ref, emitted_at=record.entry.emitted_at)
        self.written.deleted += 1

    def _upsert(self, record: Prepared, version: Version) -> None:
        old = self.changes.states.get(record.ref)
        if record.ref in self.erased:
            raise Rejected(Code.SUPPRESSED)
        if old is None:
            self.changes.create(record.ref, version)
            self.written.created += 1
            return
        changed = changed_fields(old.data, version.data)
        if not changed:
            self.written.unchanged += 1
            return
        self._require_mutable(record)
        if old.change_seq > self.run.began[record.ref.connection_id]:
            self._receipt(record, Code.DUPLICATE_KEY)
        target = record.entry.target
        self.changes.update(
            record.ref,
            version,
            changed=changed,
            searched=not target.searched.isdisjoint(changed),
            declared=not target.stream.fields.keys().isdisjoint(changed),
        )
        self.written.updated += 1

    def _require_mutable(self, record: Prepared) -> None:
        if record.entry.target.appends and not self.run.replace:
            raise Rejected(Code.APPEND_ONLY_CONFLICT)

    def _receipt(self, record: Prepared, code: Code) -> None:
        self.written.receipts.append(Receipt(record.entry.line, code))
