"""One part of an export into the store, from where an earlier run of it stopped."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from django.db import DatabaseError
from django.utils import timezone

from evidence import limits
from evidence.advisory_locks import try_exclusive
from evidence.errors import InvalidRequest
from evidence.models.imports import ImportRun
from evidence.storing.blobs import kept_blobs, put_blob
from evidence.storing.ingest import Outcome, ingest_lines
from evidence.storing.receipts import Code as Refused
from evidence.storing.receipts import Receipt
from importers.core.results import Code, Remark
from importers.runs import store
from importers.runs.preview import Part
from importers.runs.record_feed import Feed, Spool, Waiting, said_of
from importers.runs.seen_keys import KeyLog, KeySet
from importers.runs.store import Said

OnProgress = Callable[[ImportRun], object]


class Stopped(Exception):  # noqa: N818 - somebody wanted it so
    """The run was asked to stop; what is stored stays, and the next run goes on."""


class BusyError(InvalidRequest):
    """Another process imports the same export at the moment."""


def import_part(
    part: Part,
    *,
    label: str,
    left: tuple[tuple[str, Remark], ...] = (),
    workspace: Path,
    now: datetime,
    on_progress: OnProgress | None = None,
) -> ImportRun:
    """Reads a part into its connection; ``left`` is said once, in a run that begins.

    Raises ``ChoiceNeeded`` before anything is written, ``BusyError`` while another process is
    at the same export, ``IngestStorageError`` when the database fails; ``on_progress`` may raise to
    stop. Then what is stored stays, and the same again goes on.
    """
    if part.needed is not None:
        raise part.needed
    connection_id = store.made(part.target, now=now)
    store.remember(connection_id, part.options)
    # Before the run is looked up: two processes that start at once must not make two runs.
    with try_exclusive(f"import {connection_id} {part.kind.name} {part.fingerprint}") as is_free:
        if not is_free:
            raise BusyError(message="This export is being imported already.")
        run = store.begin(
            part.kind,
            connection_id=connection_id,
            owner_id=part.target.owner_id,
            label=label,
            fingerprint=part.fingerprint,
            total=part.size,
            now=now,
        )
        log = KeyLog(workspace / f"{run.run_id}.keys")
        _carry_out(part, left, run, log, now, on_progress)
    return run


def _carry_out(
    part: Part,
    left: tuple[tuple[str, Remark], ...],
    run: ImportRun,
    log: KeyLog,
    now: datetime,
    on_progress: OnProgress | None,
) -> None:
    spool = Spool()
    try:
        _Importing(part, left, run, spool, log, now, on_progress)()
    except BaseException:
        run.status = ImportRun.Status.STOPPED
        with contextlib.suppress(DatabaseError):  # it may be what ended the run
            run.save(update_fields=["status"])
        raise
    finally:
        spool.close()


@dataclass
class _Importing:
    """The run in hand."""

    part: Part
    left: tuple[tuple[str, Remark], ...]
    run: ImportRun
    spool: Spool
    log: KeyLog
    now: datetime
    on_progress: OnProgress | None
    counted: Outcome = field(default_factory=Outcome)
    bad_lines: set[int] = field(default_factory=set)

    def __call__(self) -> None:
        feed = self._feed()
        while feed.more:
            self._import(feed)
        self.run.status = ImportRun.Status.FINISHED
        store.save(self.run, [], now=timezone.now())
        self.log.remove()

    def _import(self, feed: Feed) -> None:
        """Until the end, or until the room for files is used up."""
        before, self.counted = feed.number, Outcome()

        def stored(so_far: Outcome) -> None:
            self._count(so_far)
            self._stored(feed, up_to=before + so_far.lines)

        ingest_lines(
            feed.lines(),
            owner_id=self.run.owner_id,
            now=self.now,
            on_receipt=lambda receipt: self._refused(feed, receipt),
            on_progress=stored,
        )
        self._stored(feed, up_to=feed.number)

    def _feed(self) -> Feed:
        """From the first piece that is not done."""
        seen = self.log.load(items=self.run.items_done) if self.run.items_done else None
        if seen is None:
            self._start_over()
            seen = KeySet()
        return Feed(
            self.part.kind.read(self.part.entries, self.part.options),
            connection_id=self.run.connection_id,
            skip=self.run.items_done,
            seen=seen,
            spool=self.spool,
        )

    def _start_over(self) -> None:
        said = [Said(-1, name, "", remark) for name, remark in self.left]
        store.start_over(self.run, said, now=timezone.now())
        self.log.start()

    def _refused(self, feed: Feed, receipt: Receipt) -> None:
        self.bad_lines.add(receipt.line)
        if receipt.code is Refused.SUPPRESSED:
            feed.refused(receipt.line, Remark(Code.ERASED))
        elif receipt.code is not Refused.DUPLICATE_KEY:
            why = " ".join(filter(None, (receipt.code, receipt.path, receipt.reason)))
            feed.refused(receipt.line, Remark(Code.NOT_STORED, why))

    def _count(self, so_far: Outcome) -> None:
        for name in ("created", "updated", "unchanged"):
            more = getattr(so_far, name) - getattr(self.counted, name)
            setattr(self.run, name, getattr(self.run, name) + more)
        self.counted = replace(so_far)

    def _stored(self, feed: Feed, *, up_to: int) -> None:
        """Everything up to this line is in the database: its files follow, and the run is noted."""
        self._keep_files(self.spool.take(up_to=up_to))
        self.spool.shrink()
        marks = feed.stored(up_to=up_to)
        for mark in marks:
            self.run.items_done = mark.item + 1
            self.run.bytes_done += mark.size
            self.run.doubles += mark.doubles
        self.bad_lines = {line for line in self.bad_lines if line > up_to}
        self.log.append(((mark.item, mark.keys) for mark in marks), items=self.run.items_done)
        store.save(self.run, [each for mark in marks for each in said_of(mark)], now=timezone.now())
        if self.on_progress is not None:
            self.on_progress(self.run)

    def _keep_files(self, waiting: list[Waiting]) -> None:
        wanted = [each for each in waiting if each.line not in self.bad_lines]
        known = kept_blobs(self.run.connection_id, [each.blob_id for each in wanted])
        for each in wanted:
            if each.blob_id not in known and each.size <= limits.BLOB_MAX_BYTES:
                self._keep(each)

    def _keep(self, waiting: Waiting) -> None:
        try:
            put_blob(
                self.run.connection_id,
                stream=waiting.stream,
                record_key=waiting.key,
                media_type=waiting.media_type,
                chunks=self.spool.chunks(waiting),
                now=self.now,
                blob_id=waiting.blob_id,
            )
        except InvalidRequest:  # the owner erased the record while it was imported
            return
        self.run.files += 1
