"""Apply operations to records in memory, then save them together.

Each operation sees the result of the previous one and adds its own change entry, so the batch size
does not affect the outcome. The connections stay locked until the transaction ends.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from evidence.models.owners import current_owner
from evidence.models.records import RecordChange
from evidence.write import app_data, copy_format, rows, vector_table
from evidence.write.derivation import (
    Derived,
    StoredRecord,
    emitted_times,
    record_row,
)
from evidence.write.locks import LockedConnection, save_change_numbers
from evidence.write.rows import CountChange, RecordId, save_counts

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
    record_rows: dict[RecordId, bytes | None] = field(default_factory=dict)
    search_rows: dict[RecordId, bytes | None] = field(default_factory=dict)
    stale_vectors: dict[RecordId, set[str] | None] = field(default_factory=dict)
    new_times: dict[RecordId, datetime | None] = field(default_factory=dict)
    change_rows: list[bytes] = field(default_factory=list)
    counts: dict[tuple[str, str], CountChange] = field(
        default_factory=lambda: defaultdict(CountChange)
    )
    _recorded_at: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.existing_ids = frozenset(self.records)
        self._recorded_at = copy_format.timestamp(self.now)

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
        vector_table.delete_vectors(
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
        vector_table.update_times(
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
            b"%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n"
            % (
                copy_format.text(current_owner()),
                copy_format.text(ref.connection_id),
                seq,
                copy_format.text(ref.stream),
                copy_format.text(ref.record_key),
                kind.value.encode(),
                copy_format.text_array(changed),
                copy_format.timestamp(consent_time),
                self._recorded_at,
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
