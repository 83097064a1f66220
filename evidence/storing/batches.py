"""Lines -> batches of records that are ready to be written; needs no database and no clock."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from evidence.storing.deriving import Derived, derive
from evidence.storing.destinations import Destinations
from evidence.storing.entries import Address, Entry, Op, read_entry
from evidence.storing.lines import Line
from evidence.storing.receipts import Code, Receipt, Rejected
from evidence.storing.rows import Ref

RECORDS_AT_ONCE = 1_000
BYTES_AT_ONCE = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Prepared:
    """An entry and what follows from its data; nothing does for a deletion."""

    entry: Entry
    ref: Ref
    derived: Derived | None


@dataclass(slots=True)
class Batch:
    """Consecutive lines: the good ones prepared, the bad ones with their receipts."""

    records: list[Prepared] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    lines: int = 0
    size: int = 0

    @property
    def is_full(self) -> bool:
        return self.lines >= RECORDS_AT_ONCE or self.size >= BYTES_AT_ONCE


@dataclass(frozen=True, slots=True)
class Preparer:
    """Makes records of lines for one run."""

    destinations: Destinations
    address: Address | None
    now: datetime

    def batches(self, lines: Iterable[Line]) -> Iterator[Batch]:
        batch = Batch()
        for line in lines:
            self._add(batch, line)
            if batch.is_full:
                yield batch
                batch = Batch()
        if batch.lines:
            yield batch

    def _add(self, batch: Batch, line: Line) -> None:
        batch.lines += 1
        batch.size += len(line.content or b"")
        try:
            batch.records.append(self._prepared(line))
        except Rejected as refusal:
            batch.receipts.append(Receipt(line.number, refusal.code, refusal.path, refusal.reason))

    def _prepared(self, line: Line) -> Prepared:
        if line.content is None:
            raise Rejected(Code.LINE_TOO_LONG)
        entry = read_entry(
            line.content,
            line=line.number,
            destinations=self.destinations,
            address=self.address,
            now=self.now,
        )
        target = entry.target
        ref = Ref(target.connection_id, target.stream.name, entry.key)
        if entry.op is Op.DELETE:
            return Prepared(entry, ref, None)
        return Prepared(entry, ref, derive(target, key=entry.key, data=entry.data))
