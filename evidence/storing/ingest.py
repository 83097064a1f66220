"""Lines of NDJSON into the store: the one way in for records.

``ingest_stream`` takes lines of one stream of one connection (REST), ``ingest_lines`` takes lines
that say themselves where they belong (files). Both process lines in order, store a batch durably
before they go on, and never stop at a bad line. Running the same lines again changes nothing, so a
run that was cut short is completed by another.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import datetime

from evidence.storing import targets
from evidence.storing.batches import Address, Batch, Preparer
from evidence.storing.ndjson import Line
from evidence.storing.receipts import Code, Receipt
from evidence.storing.reindex import Upkeep
from evidence.storing.writer import Run, Written, failures_told, write

BATCHES_AHEAD = 6
BYTES_AHEAD = 12 * 1024 * 1024
"""Of lines, the batch in use included; what is made of them takes several times as much."""

PATIENCE_SECONDS = 10


class _Shelf:
    """Batches made and not yet done with: a few, and none is begun while they are large."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batches: deque[Batch] = deque()
        self._in_use = 0
        self._failure: BaseException | None = None
        self._open = True

    def fill(self, batches: Iterator[Batch]) -> None:
        """Runs until there are no more batches, or nobody wants them."""
        try:
            while self._has_room() and (batch := next(batches, None)) is not None:
                self._put(batch)
        except BaseException as error:  # noqa: BLE001 - it is raised again where batches are taken
            self._failure = error
        self.close()

    def take(self) -> Batch | None:
        """The next batch; None after the last. Whoever takes one is done with the one before."""
        with self._changed:
            self._in_use = 0
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._batches or not self._open)
            if self._batches:
                batch = self._batches.popleft()
                self._in_use = batch.size
                return batch
        if self._failure is not None:
            raise self._failure
        return None

    def close(self) -> None:
        with self._changed:
            self._open = False
            self._changed.notify_all()

    def _put(self, batch: Batch) -> None:
        with self._changed:
            self._batches.append(batch)
            self._changed.notify_all()

    def _has_room(self) -> bool:
        """Waits for room; false when nobody wants more."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open or self._is_low())
            return self._open

    def _is_low(self) -> bool:
        size = self._in_use + sum(batch.size for batch in self._batches)
        return size < BYTES_AHEAD and len(self._batches) < BATCHES_AHEAD


def ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, the next ones made while one is in use."""
    shelf = _Shelf()
    maker = threading.Thread(target=shelf.fill, args=(batches,), name="prepare", daemon=True)
    maker.start()
    try:
        while (batch := shelf.take()) is not None:
            yield batch
    finally:
        shelf.close()
        # A maker that waits for a line which never comes must not keep its process.
        maker.join(timeout=PATIENCE_SECONDS)


RECEIPTS_KEPT = 10_000
"""Receipts that an outcome holds; all of them go to ``on_receipt``."""


@dataclass(slots=True)
class Outcome:
    """What became of all lines so far.

    ``by_code`` counts the lines that were not stored, ``receipts`` holds the first of theirs;
    ``notices`` holds the first of those that were stored all the same.
    """

    lines: int = 0
    size: int = 0
    created: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    duplicates: int = 0
    by_code: Counter[Code] = field(default_factory=Counter)
    receipts: list[Receipt] = field(default_factory=list)
    notices: list[Receipt] = field(default_factory=list)

    @property
    def written(self) -> int:
        return self.created + self.updated + self.deleted

    @property
    def accepted(self) -> int:
        return self.written + self.unchanged

    @property
    def refused(self) -> int:
        """Lines that were wrong; those that the owner had erased are not."""
        return self.by_code.total() - self.by_code[Code.SUPPRESSED]


OnReceipt = Callable[[Receipt], object]
OnProgress = Callable[[Outcome], object]


def ingest_stream(
    lines: Iterable[Line],
    *,
    connection_id: str,
    stream: str,
    owner_id: str,
    now: datetime,
    replace: bool = False,
) -> Outcome:
    """Lines ``{key, data, emitted_at, op}`` of one stream (contract 5.3).

    Raises ``ConnectionNotFound``, ``ConnectionNotWritable``, ``StreamNotDeclared`` before any line
    is read, ``IngestStorageError`` when a batch could not be stored; earlier ones stay.
    """
    where = targets.one_of(owner_id, connection_id=connection_id, stream=stream)
    preparer = Preparer(where, Address(connection_id, stream), now)
    return _ingest(lines, preparer, Run(now, replace), Upkeep())


def ingest_lines(
    lines: Iterable[Line],
    *,
    owner_id: str,
    now: datetime,
    replace: bool = False,
    on_receipt: OnReceipt | None = None,
    on_progress: OnProgress | None = None,
    beside: Executor | None = None,
) -> Outcome:
    """Lines ``{connection_id, stream, key, data, emitted_at, op}`` of any connection of the owner.

    ``on_progress`` is called after each batch, which is durable by then; the search index is kept
    up ``beside`` where ``indexes.a_thread_beside`` gives a thread for it. Raises
    ``IngestStorageError`` when a batch could not be stored; earlier ones stay.
    """
    preparer = Preparer(targets.all_of(owner_id), None, now)
    upkeep = Upkeep(beside)
    return _ingest(lines, preparer, Run(now, replace), upkeep, on_receipt, on_progress)


def _ingest(
    lines: Iterable[Line],
    preparer: Preparer,
    run: Run,
    upkeep: Upkeep,
    on_receipt: OnReceipt | None = None,
    on_progress: OnProgress | None = None,
) -> Outcome:
    outcome = Outcome()
    for batch in ahead(preparer.batches(lines)):
        written = write(batch.records, run=run)
        _count(outcome, batch, written, on_receipt)
        with failures_told():
            upkeep.note(written.rows)
        if on_progress is not None:
            on_progress(outcome)
    with failures_told():
        upkeep.finish(run.began.keys())
    return outcome


def _count(outcome: Outcome, batch: Batch, written: Written, on_receipt: OnReceipt | None) -> None:
    outcome.lines += batch.lines
    outcome.size += batch.size
    outcome.created += written.created
    outcome.updated += written.updated
    outcome.deleted += written.deleted
    outcome.unchanged += written.unchanged
    for receipt in sorted(batch.receipts + written.receipts, key=lambda each: each.line):
        _note(outcome, receipt)
        if on_receipt is not None:
            on_receipt(receipt)


def _note(outcome: Outcome, receipt: Receipt) -> None:
    if receipt.code is Code.DUPLICATE_KEY:
        outcome.duplicates += 1
        kept = outcome.notices
    else:
        outcome.by_code[receipt.code] += 1
        kept = outcome.receipts
    if len(kept) < RECEIPTS_KEPT:
        kept.append(receipt)
