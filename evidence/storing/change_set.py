"""What a run of operations does to records: applied in order in memory, then saved at once.

Each operation sees the state that the one before it left, and leaves a change entry of its own, so
that a batch of any size is as if each line had been alone. The connections are held meanwhile.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from evidence.models.records import RecordChange
from evidence.storing import copy_format, rows, vector_table
from evidence.storing.derivation import Derived, State, before, emitted_times, record_row
from evidence.storing.locks import Held, save_numbering
from evidence.storing.rows import Count, Ref, save_counts

Kind = RecordChange.Kind


@dataclass(frozen=True, slots=True)
class Version:
    """A record as one line has it."""

    data: Mapping[str, Any]
    emitted_at: datetime
    derived: Derived

    @property
    def consent_time(self) -> datetime | None:
        return self.derived.consent_time


@dataclass(slots=True)
class Changes:
    """Operations on the records named when ``states`` were read, in connections that are held."""

    held: Mapping[str, Held]
    now: datetime
    states: dict[Ref, State]
    stored: Collection[Ref] = field(init=False)
    latest: dict[Ref, bytes | None] = field(default_factory=dict)
    search: dict[Ref, bytes | None] = field(default_factory=dict)
    stale: dict[Ref, set[str] | None] = field(default_factory=dict)
    moved: dict[Ref, datetime | None] = field(default_factory=dict)
    entries: list[bytes] = field(default_factory=list)
    counts: dict[tuple[str, str], Count] = field(default_factory=lambda: defaultdict(Count))

    def __post_init__(self) -> None:
        self.stored = frozenset(self.states)

    def create(self, ref: Ref, version: Version) -> None:
        """Puts a record that does not exist."""
        seq = self._entry(ref, Kind.CREATED)
        self._put(
            ref, version, State(version.data, version.emitted_at, {}, version.consent_time, seq)
        )
        self.search[ref] = version.derived.search
        self._count(ref, 1, version.emitted_at)

    def update(
        self, ref: Ref, version: Version, *, changed: list[str], searched: bool, declared: bool
    ) -> None:
        """Replace a record that differs in the fields ``changed``: ``searched`` if its search text
        differs, ``declared`` if a field that the declaration names differs."""
        old = self.states[ref]
        emitted_at, times = emitted_times(
            old, data=version.data, changed=changed, emitted_at=version.emitted_at
        )
        seq = self._entry(ref, Kind.UPDATED, before(old.data, changed), old.consent_time)
        self._put(ref, version, State(version.data, emitted_at, times, version.consent_time, seq))
        if searched:
            self.search[ref] = version.derived.search
        self._let_go(ref, changed)
        if version.consent_time != old.consent_time:
            self.moved[ref] = version.consent_time
        self._count(ref, 0, version.emitted_at, declared=declared)

    def delete(self, ref: Ref, *, emitted_at: datetime | None) -> None:
        """Takes away a record that exists, and leaves a tombstone."""
        old = self.states.pop(ref)
        self._entry(ref, Kind.DELETED, before(old.data, list(old.data)), old.consent_time)
        self.latest[ref] = self.search[ref] = None
        self.stale[ref] = None
        self._count(ref, -1, emitted_at)

    def save(self) -> None:
        """One statement a table and kind; nothing where nothing changed."""
        if not self.entries:
            return
        rows.delete_records(ref for ref in self.latest if ref in self.stored)
        rows.delete_search(ref for ref in self.search if ref in self.stored)
        vector_table.forget({ref: old for ref, old in self.stale.items() if ref in self.stored})
        vector_table.move({ref: at for ref, at in self.moved.items() if ref in self.stored})
        rows.delete_blobs(ref for ref, row in self.latest.items() if row is None)
        rows.add_records(row for row in self.latest.values() if row is not None)
        rows.add_search(row for row in self.search.values() if row is not None)
        rows.add_changes(self.entries)
        save_counts(self.counts, now=self.now)
        save_numbering(self.held.values())

    def _let_go(self, ref: Ref, changed: list[str]) -> None:
        """The vectors of the fields that changed; those of the others still hold."""
        known = self.stale.setdefault(ref, set())
        if known is not None:
            known.update(changed)

    def _put(self, ref: Ref, version: Version, state: State) -> None:
        self.states[ref] = state
        self.latest[ref] = record_row(version.derived, state)

    def _entry(
        self,
        ref: Ref,
        kind: Kind,
        hashes: Mapping[str, str | None] | None = None,
        consent_time: datetime | None = None,
    ) -> int:
        seq = self.held[ref.connection_id].next_seq()
        self.entries.append(
            b"%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n"
            % (
                copy_format.text(ref.connection_id),
                seq,
                copy_format.text(ref.stream),
                copy_format.text(ref.record_key),
                kind.value.encode(),
                copy_format.NULL if hashes is None else copy_format.json(hashes),
                copy_format.moment(consent_time),
                copy_format.moment(self.now),
            )
        )
        return seq

    def _count(
        self, ref: Ref, added: int, emitted_at: datetime | None, *, declared: bool = True
    ) -> None:
        count = self.counts[ref.connection_id, ref.stream]
        count.note(added, emitted_at=emitted_at, declared=declared)
