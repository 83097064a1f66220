"""Import a part of an export, resuming where an earlier run of it stopped."""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import DatabaseError
from django.utils import timezone

from evidence.advisory_locks import try_exclusive
from evidence.errors import InvalidRequest
from evidence.models.owners import current_owner
from evidence.write.ingest import IngestResult, ingest_lines
from evidence.write.ndjson import Receipt
from evidence.write.ndjson import ReceiptCode as RejectionCode
from importers.core import sandbox
from importers.core.readers import KeySet
from importers.core.results import Issue, ReceiptCode
from importers.models import ImportRun
from importers.runs import store
from importers.runs.preview import ExportPart, refresh_part
from importers.runs.record_feed import (
    AttachmentSpool,
    ImportTotals,
    RecordFeed,
    SpooledFile,
    declares_files,
    pending_receipts,
    store_files,
)
from importers.runs.store import PendingReceipt

OnProgress = Callable[[ImportRun], object]


class ImportStopped(Exception):  # noqa: N818 - not an error
    """The run was asked to stop. Stored records stay, and the next run resumes."""


class BusyError(InvalidRequest):
    """Another process imports the same export at the moment."""


def import_part(part: ExportPart, **options: Any) -> ImportRun:
    """Import a part into its connection at once; takes the options of ``import_steps``."""
    steps = import_steps(part, **options)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            run: ImportRun = end.value
            return run


def import_steps(
    part: ExportPart,
    *,
    label: str,
    skipped: tuple[tuple[str, Issue], ...] = (),
    workspace: Path,
    now: datetime,
    on_progress: OnProgress | None = None,
) -> Generator[object, None, ImportRun]:
    """Import a part into its connection in steps of some seconds, and return the run.

    A new run also stores receipts of ``skipped`` files. Raises ``ChoiceNeeded`` before a record is written, ``BusyError`` while another process imports
    the same export, and ``IngestStorageError`` when the database fails. ``on_progress`` may raise to
    stop the run. Stored records stay, and the next run of the same part resumes.
    """
    if part.missing_option is not None:
        raise part.missing_option
    connection_id = store.ensure_connection(part.target, now=now)
    part = refresh_part(part, connection_id)
    if part.missing_option is not None:
        raise part.missing_option
    store.save_answers(connection_id, part.answers)
    # Lock before looking for the run: two processes that start at once must not create two runs.
    with try_exclusive(
        f"import {current_owner()} {connection_id} {part.importer.name} {part.fingerprint}"
    ) as is_free:
        if not is_free:
            raise BusyError(message="Another process is importing this export. Wait for it.")
        run = store.start_or_resume(
            part.importer,
            connection_id=connection_id,
            owner_id=part.target.owner_id,
            label=label,
            fingerprint=part.fingerprint,
            total=part.size,
            now=now,
        )
        keys = workspace / f"{run.run_id}.keys"
        with closing(_PartImport(part, skipped, run, keys, now, on_progress)) as running:
            yield from running.steps()
    return run


@dataclass
class _PartImport:
    part: ExportPart
    skipped: tuple[tuple[str, Issue], ...]
    run: ImportRun
    keys: Path
    now: datetime
    on_progress: OnProgress | None
    counted: IngestResult = field(default_factory=IngestResult)
    rejected_lines: set[int] = field(default_factory=set)
    new_lines: set[int] = field(default_factory=set)
    changed_lines: set[int] = field(default_factory=set)
    spool: AttachmentSpool = field(default_factory=AttachmentSpool)
    seen: KeySet = field(default_factory=KeySet)

    def __post_init__(self) -> None:
        self.totals = ImportTotals.of(self.part.importer.declaration)

    def steps(self) -> Iterator[object]:
        try:
            feed = self._feed()
            self.totals.load(self.run.totals)
            while feed.has_more:
                self._import(feed)
                yield self.run
        except BaseException:
            self.run.status = ImportRun.Status.STOPPED
            with suppress(DatabaseError):  # the database may be the cause
                self.run.save(update_fields=["status"])
            raise
        self.run.status = ImportRun.Status.FINISHED
        store.save_progress(self.run, [], now=timezone.now())
        KeySet.remove(self.keys)

    def close(self) -> None:
        self.spool.close()
        self.seen.close()

    def _import(self, feed: RecordFeed) -> None:
        """Import until the export ends, the spool is full or others have their turn."""
        first_line, self.counted = feed.line, IngestResult()

        def on_stored(outcome: IngestResult) -> None:
            self._count(outcome)
            self._finish_items(feed, up_to=first_line + outcome.lines)

        ingest_lines(
            feed.lines(),
            owner_id=current_owner(),
            now=self.now,
            on_receipt=lambda receipt: self._add_rejected(feed, receipt),
            on_progress=on_stored,
        )
        self._finish_items(feed, up_to=feed.line)

    def _feed(self) -> RecordFeed:
        """Return a feed that starts at the first unfinished item."""
        seen = KeySet.load(self.keys, items=self.run.items_done) if self.run.items_done else None
        self.seen = seen or self._restart()
        return RecordFeed(
            sandbox.read(
                self.part.importer,
                self.part.files,
                self.part.options,
                skip=self.run.items_done,
            ),
            connection_id=self.run.connection_id,
            seen=self.seen,
            totals=self.totals,
            spool=self.spool,
        )

    def _restart(self) -> KeySet:
        receipts = [PendingReceipt(-1, name, "", issue) for name, issue in self.skipped]
        store.restart(self.run, receipts, now=timezone.now())
        KeySet.remove(self.keys)
        return KeySet(self.keys)

    def _add_rejected(self, feed: RecordFeed, receipt: Receipt) -> None:
        if receipt.code is RejectionCode.TIME_NOT_USED:
            feed.add_rejected(receipt.line, Issue(ReceiptCode.BAD_DATE, str(receipt.path)))
            return
        self.rejected_lines.add(receipt.line)
        if receipt.code is RejectionCode.SUPPRESSED:
            feed.add_rejected(receipt.line, Issue(ReceiptCode.ERASED))
        elif receipt.code is not RejectionCode.DUPLICATE_KEY:
            detail = " ".join(filter(None, (receipt.code, receipt.path, receipt.reason)))
            feed.add_rejected(receipt.line, Issue(ReceiptCode.NOT_STORED, detail))

    def _count(self, outcome: IngestResult) -> None:
        for name in ("created", "updated", "unchanged"):
            added = getattr(outcome, name) - getattr(self.counted, name)
            setattr(self.run, name, getattr(self.run, name) + added)
        self.counted = replace(outcome)
        self.new_lines.update(outcome.new_lines)
        self.changed_lines.update(outcome.changed_lines)

    def _finish_items(self, feed: RecordFeed, *, up_to: int) -> None:
        """Store the files of records up to this line, and save the progress."""
        self._store_files(self.spool.take(up_to=up_to))
        self.spool.truncate()
        items = feed.finished_items(up_to=up_to)
        refused = self.rejected_lines - self.new_lines - self.changed_lines
        for item in items:
            self.run.items_done = item.number + 1
            self.run.bytes_done += item.size
            self.run.doubles += item.duplicates
            self.totals.add(
                item.summaries, new=self.new_lines, changed=self.changed_lines, refused=refused
            )
        self.run.totals = self.totals.to_json()
        for lines in (self.rejected_lines, self.new_lines, self.changed_lines):
            lines.difference_update([line for line in lines if line <= up_to])
        self.seen.save(items=self.run.items_done)
        receipts = [receipt for item in items for receipt in pending_receipts(item)]
        store.save_progress(self.run, receipts, now=timezone.now())
        if self.on_progress is not None:
            self.on_progress(self.run)

    def _store_files(self, files: list[SpooledFile]) -> None:
        files = [file for file in files if file.line not in self.rejected_lines]
        stored = store_files(self.spool, files, connection_id=self.run.connection_id, now=self.now)
        declaration = self.part.importer.declaration
        self.run.files += sum(declares_files(declaration, file.stream) for file in stored)
