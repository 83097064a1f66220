"""Import NDJSON lines in batches and report the outcome.

``ingest_stream`` takes lines of one stream (REST); ``ingest_lines`` takes lines that name their
connection and stream (files). Both process lines in order, commit batch by batch, and continue
after a bad line. Importing the same lines again changes nothing, so repeat an interrupted import.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime

from evidence.write import targets
from evidence.write.batches import Batch, BatchPreparer, StreamAddress
from evidence.write.disk_usage import check_disk_limit
from evidence.write.ndjson import NOTICES, NdjsonLine, Receipt, ReceiptCode
from evidence.write.reindex import IndexMaintenance
from evidence.write.writer import IngestRun, WriteResult, storage_errors, write_batch

MAX_BATCHES_AHEAD = 6
MAX_BYTES_AHEAD = 12 * 1024 * 1024
"""Bytes of input lines, including the batch in use; prepared records take several times as much."""

JOIN_TIMEOUT_SECONDS = 10


class _BatchQueue:
    """Queue of prepared batches, bounded by number and by bytes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batches: deque[Batch] = deque()
        self._in_use = 0
        self._failure: BaseException | None = None
        self._open = True

    def fill(self, batches: Iterator[Batch]) -> None:
        """Add batches until there are no more, or the queue is closed."""
        try:
            while self._has_room() and (batch := next(batches, None)) is not None:
                self._put(batch)
        except BaseException as error:  # noqa: BLE001 - get() raises it again
            self._failure = error
        self.close()

    def get(self) -> Batch | None:
        """Return the next batch, or None after the last one. Releases the previous batch."""
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
        """Wait for room; return False when the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open or self._is_low())
            return self._open

    def _is_low(self) -> bool:
        size = self._in_use + sum(batch.size for batch in self._batches)
        return size < MAX_BYTES_AHEAD and len(self._batches) < MAX_BATCHES_AHEAD


def prepare_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the same batches, preparing the next ones on a second thread."""
    queue = _BatchQueue()
    context = copy_context()  # it acts for the same owner
    arguments = (queue.fill, batches)
    thread = threading.Thread(target=context.run, args=arguments, name="prepare", daemon=True)
    thread.start()
    try:
        while (batch := queue.get()) is not None:
            yield batch
    finally:
        queue.close()
        # A thread that waits for input must not keep the process alive.
        thread.join(timeout=JOIN_TIMEOUT_SECONDS)


MAX_RECEIPTS = 10_000
"""Maximum number of receipts per list of a result; ``on_receipt`` gets all of them."""


@dataclass(slots=True)
class IngestResult(WriteResult):
    """Outcome of all lines so far.

    ``by_code`` counts lines that were not stored and ``receipts`` lists the first of them;
    ``notices`` lists the first receipts of stored lines. ``new_lines`` and ``changed_lines`` are those
    of the last batch.
    """

    lines: int = 0
    size: int = 0
    duplicates: int = 0
    times_not_used: int = 0
    by_code: Counter[ReceiptCode] = field(default_factory=Counter)
    notices: list[Receipt] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        return self.written + self.unchanged

    @property
    def rejected(self) -> int:
        """Number of invalid lines; records that the owner erased do not count."""
        return self.by_code.total() - self.by_code[ReceiptCode.SUPPRESSED]


OnReceipt = Callable[[Receipt], object]
OnProgress = Callable[[IngestResult], object]


def ingest_stream(
    lines: Iterable[NdjsonLine],
    *,
    connection_id: str,
    stream: str,
    owner_id: str,
    now: datetime,
    replace: bool = False,
    bounds_deletions: bool = False,
) -> IngestResult:
    """Import lines ``{key, data, emitted_at, op}`` of one stream (contract 5.3).

    Raises ``ConnectionNotFound``, ``ConnectionNotWritable`` or ``StreamNotDeclared`` before
    reading, ``IngestStorageError`` when a batch cannot be stored and ``StorageFull`` at the disk
    limit of the owner; earlier batches stay.
    """
    registry = targets.load_one_target(owner_id, connection_id=connection_id, stream=stream)
    preparer = BatchPreparer(registry, StreamAddress(connection_id, stream), now)
    run = IngestRun(now, replace, bounds_deletions)
    return _ingest(lines, preparer, run, IndexMaintenance())


def ingest_lines(
    lines: Iterable[NdjsonLine],
    *,
    owner_id: str,
    now: datetime,
    replace: bool = False,
    on_receipt: OnReceipt | None = None,
    on_progress: OnProgress | None = None,
    executor: Executor | None = None,
) -> IngestResult:
    """Import lines ``{connection_id, stream, key, data, emitted_at, op}`` of all connections.

    ``on_progress`` is called after each committed batch. ``executor`` runs index maintenance, see
    ``reindex.maintenance_thread``. Raises ``IngestStorageError`` when a batch cannot be stored and
    ``StorageFull`` at the disk limit of the owner; earlier batches stay.
    """
    preparer = BatchPreparer(targets.load_all_targets(owner_id), None, now)
    maintenance = IndexMaintenance(executor)
    return _ingest(lines, preparer, IngestRun(now, replace), maintenance, on_receipt, on_progress)


def ingest_in_transaction(
    lines: Iterable[NdjsonLine], *, owner_id: str, now: datetime, on_receipt: OnReceipt
) -> IngestResult:
    """Import lines as ``ingest_lines`` does, as a part of the caller's transaction.

    The caller flushes indexes after it. Raises ``IngestStorageError`` or ``StorageFull``.
    """
    preparer = BatchPreparer(targets.load_all_targets(owner_id), None, now)
    outcome, run = IngestResult(), IngestRun(now)
    for batch in preparer.batches(lines):
        _add_batch(outcome, batch, _write(batch, run), on_receipt)
    return outcome


def _ingest(
    lines: Iterable[NdjsonLine],
    preparer: BatchPreparer,
    run: IngestRun,
    maintenance: IndexMaintenance,
    on_receipt: OnReceipt | None = None,
    on_progress: OnProgress | None = None,
) -> IngestResult:
    outcome = IngestResult()
    for batch in prepare_ahead(preparer.batches(lines)):
        result = _write(batch, run)
        _add_batch(outcome, batch, result, on_receipt)
        with storage_errors():
            maintenance.note(result.written, run.first_seq.keys())
        if on_progress is not None:
            on_progress(outcome)
    with storage_errors():
        maintenance.finish()
    return outcome


def _write(batch: Batch, run: IngestRun) -> WriteResult:
    if any(record.derived is not None for record in batch.records):
        check_disk_limit()
    return write_batch(batch.records, run=run)


def _add_batch(
    outcome: IngestResult, batch: Batch, result: WriteResult, on_receipt: OnReceipt | None
) -> None:
    outcome.lines += batch.lines
    outcome.size += batch.size
    outcome.add_counts(result)
    outcome.new_lines, outcome.changed_lines = result.new_lines, result.changed_lines
    receipts = sorted(batch.receipts + result.receipts, key=lambda receipt: receipt.line)
    rejected = {receipt.line for receipt in receipts if receipt.code not in NOTICES}
    for receipt in receipts:
        if receipt.code is ReceiptCode.TIME_NOT_USED and receipt.line in rejected:
            continue
        _add_receipt(outcome, receipt)
        if on_receipt is not None:
            on_receipt(receipt)


def _add_receipt(outcome: IngestResult, receipt: Receipt) -> None:
    if receipt.code in NOTICES:
        outcome.duplicates += receipt.code is ReceiptCode.DUPLICATE_KEY
        outcome.times_not_used += receipt.code is ReceiptCode.TIME_NOT_USED
        receipts = outcome.notices
    else:
        outcome.by_code[receipt.code] += 1
        receipts = outcome.receipts
    if len(receipts) < MAX_RECEIPTS:
        receipts.append(receipt)
