"""Import parts of exports, resuming where an earlier run stopped, at once or in the background.

In the background, uploads and exports in watched folders are imported. The imports of several owners
take turns in steps of some seconds.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import DatabaseError
from django.utils import timezone

from evidence.advisory_locks import try_exclusive
from evidence.errors import ApiException, IngestStorageError, InvalidRequest
from evidence.models.owners import Owner, current_owner, first_owner, in_turn
from evidence.write.ingest import IngestResult, ingest_lines
from evidence.write.ndjson import Receipt
from evidence.write.ndjson import ReceiptCode as RejectionCode
from importers.core import sandbox
from importers.core.importer import ChoiceNeeded, parse_import_request
from importers.core.readers import KeySet
from importers.core.results import Issue, ReceiptCode, UnreadableError
from importers.models import ImportRun
from importers.runs import store, uploads
from importers.runs.preview import (
    ExportPart,
    ExportPreview,
    preview_export,
    refresh_part,
    unknown_tables,
)
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
from importers.runs.uploads import Upload

QUIET_SECONDS = 30
"""A file with a more recent write may still be incomplete."""
WAITING_SECONDS = 300
"""Pause before an export that only its owner can explain is looked at again."""
BUSY_SECONDS = 10.0
"""Pause before an upload is tried again whose export another process is importing."""
MAX_OWNERS = 4
"""Owners whose exports are imported at once, in turn. Each takes a sandbox and its memory."""
OTHER_OWNERS = "owners"
"""The folder in the watched folder that has a folder for each other owner, named by their id."""

OnProgress = Callable[[ImportRun], object]
PathStamp = tuple[int, int, float]

logger = logging.getLogger(__name__)


class ImportStopped(Exception):  # noqa: N818 - not an error
    """The run was asked to stop. Stored records stay, and the next run resumes."""


class BusyError(InvalidRequest):
    """Another process imports the same export at the moment."""


def import_part(part: ExportPart, **options: Any) -> ImportRun:
    """Import a part into its connection at once; takes the options of ``import_steps``."""
    *_, run = import_steps(part, **options)
    return run


def import_steps(
    part: ExportPart,
    *,
    label: str,
    skipped: tuple[tuple[str, Issue], ...] = (),
    workspace: Path,
    now: datetime,
    on_progress: OnProgress = lambda _run: None,
) -> Iterator[ImportRun]:
    """Import a part into its connection in steps of some seconds, and yield the run after each.

    A new run also stores receipts of ``skipped`` files. Raises ``ChoiceNeeded`` before a record is
    written, ``BusyError`` while another process imports the same export, and ``IngestStorageError``
    when the database fails. ``on_progress`` may raise to stop the run. Stored records stay, and the
    next run of the same part resumes.
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
        f"import {current_owner()} {connection_id} {part.importer.name} {part.files.fingerprint}"
    ) as is_free:
        if not is_free:
            raise BusyError(message="Another process is importing this export. Wait for it.")
        run = store.start_or_resume(
            part.target,
            connection_id=connection_id,
            label=label,
            fingerprint=part.files.fingerprint,
            total=part.files.size,
            now=now,
        )
        keys = workspace / f"{run.run_id}.keys"
        with closing(_PartImport(part, skipped, run, keys, now, on_progress)) as running:
            yield from running.steps()


@dataclass
class _PartImport:
    part: ExportPart
    skipped: tuple[tuple[str, Issue], ...]
    run: ImportRun
    keys: Path
    now: datetime
    on_progress: OnProgress
    counted: IngestResult = field(default_factory=IngestResult)
    rejected_lines: set[int] = field(default_factory=set)
    new_lines: set[int] = field(default_factory=set)
    changed_lines: set[int] = field(default_factory=set)
    spool: AttachmentSpool = field(default_factory=AttachmentSpool)
    seen: KeySet = field(default_factory=KeySet)

    def __post_init__(self) -> None:
        self.totals = ImportTotals.of(self.part.importer.declaration)

    def steps(self) -> Iterator[ImportRun]:
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
                self.part.importer, self.part.files, self.part.options, skip=self.run.items_done
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
        self.on_progress(self.run)

    def _store_files(self, files: list[SpooledFile]) -> None:
        files = [file for file in files if file.line not in self.rejected_lines]
        stored = store_files(self.spool, files, connection_id=self.run.connection_id, now=self.now)
        declaration = self.part.importer.declaration
        self.run.files += sum(declares_files(declaration, file.stream) for file in stored)


@dataclass
class WatchedFolder:
    """A folder whose exports are imported when they are new or have changed."""

    folder: Path
    _seen: dict[Path, PathStamp] = field(default_factory=dict)
    _waiting: dict[Path, float] = field(default_factory=dict)

    def changed_paths(self) -> Iterator[Path]:
        """Yield the paths that are new or have changed since the last call, or wait no longer."""
        for path, stamp in self._quiet_paths(time.time()):
            is_due = time.monotonic() >= self._waiting.get(path, math.inf)
            if is_due or self._seen.get(path) != stamp:
                self._seen[path] = stamp
                self._waiting.pop(path, None)
                yield path

    def wait(self, path: Path) -> None:
        """Yield this path again after WAITING_SECONDS; its owner may have answered by then."""
        self._waiting[path] = time.monotonic() + WAITING_SECONDS

    def forget(self, path: Path) -> None:
        """Yield this path again at the next call."""
        self._seen.pop(path, None)

    def _quiet_paths(self, now: float) -> Iterator[tuple[Path, PathStamp]]:
        if not self.folder.is_dir():
            return
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(".") or path.name == OTHER_OWNERS or path.is_symlink():
                continue
            try:
                stamp = _stamp(path)
            except OSError:  # the path was removed
                continue
            if stamp[2] < now - QUIET_SECONDS:
                yield path, stamp


def _stamp(path: Path) -> PathStamp:
    """Return the number and total size of the files, and the time of the latest write."""
    files = [file.lstat() for file in (path.rglob("*") if path.is_dir() else [path])]
    latest = max((file.st_mtime for file in files), default=path.stat().st_mtime)
    return len(files), sum(file.st_size for file in files), latest


class ImportWorker:
    """Imports one export after another; ``close`` stops it at the next batch."""

    def __init__(
        self, workspace: Path, *, watch: Path | None, seconds: float, only: str | None = None
    ) -> None:
        """Watch the folder every ``seconds``.

        With ``only``, the whole folder belongs to this owner, and nobody else's exports are imported.
        """
        self._only = only
        self._workspace = workspace
        self._watch = watch
        self._watched: dict[str, WatchedFolder] = {}
        self._due_folders: set[str] = set()
        self._busy_until: dict[str, float] = {}
        self._seconds = seconds
        self._next_check = 0.0
        self._closed = threading.Event()

    def job(self) -> Iterator[object]:
        """Import everything that is due, yielding after each step of an export."""
        uploads.remove_old(self._workspace, now=time.time())
        yield from in_turn(self._due_owners, self._import_owner, most=MAX_OWNERS, looks_again=True)

    def _due_owners(self) -> list[str]:
        """Return the owners with queued uploads, or with a watched folder that is to be looked at."""
        now = time.monotonic()
        queued = [
            root.name
            for root in uploads.list_roots(self._workspace)
            if self._busy_until.get(root.name, 0) <= now and uploads.list_queued(root)
        ]
        is_time = now >= self._next_check
        if self._watch is not None and (is_time or uploads.has_answered()):
            self._next_check = now + self._seconds
            self._due_folders = {*self._find_folders(self._watch)}
        known = Owner.unscoped.filter(pk__in={*queued, *self._due_folders})
        if self._only is not None:
            known = known.filter(pk=self._only)
        return list(known.order_by("created_at", "pk").values_list("pk", flat=True))

    def _find_folders(self, watch: Path) -> Iterator[str]:
        """Yield the owners who have a watched folder: the first owner has the folder itself."""
        others = watch / OTHER_OWNERS
        folders = {}
        if others.is_dir() and self._only is None:
            folders = {each.name: each for each in sorted(others.iterdir())}
        folders[self._only or first_owner(timezone.now()).pk] = watch
        for owner_id, folder in folders.items():
            self._watched.setdefault(owner_id, WatchedFolder(folder))
            yield owner_id

    def _import_owner(self) -> Iterator[object]:
        owner_id = current_owner()
        for upload in uploads.list_queued(uploads.root_of(self._workspace, owner_id)):
            with upload.claim() as is_claimed:
                if is_claimed:
                    yield from self._import_upload(upload, timezone.now())
                    yield upload
        if owner_id in self._due_folders:
            self._due_folders.discard(owner_id)
            yield from self._import_watched(self._watched[owner_id], timezone.now())

    def close(self) -> None:
        self._closed.set()

    def _import_upload(self, upload: Upload, now: datetime) -> Iterator[object]:
        try:
            request = parse_import_request(upload.state.wish)
            preview = preview_export(
                upload.path, request=request, owner_id=current_owner(), now=now
            )

            def on_run(run: ImportRun) -> None:
                if run.run_id not in (run_ids := upload.state.runs):
                    upload.save(runs=[*run_ids, run.run_id])

            yield from self._import_parts(preview, now, on_run=on_run)
        except ImportStopped:
            return
        except BusyError:
            # The upload stays wanted, and other owners do not wait for it.
            self._busy_until[current_owner()] = time.monotonic() + BUSY_SECONDS
            return
        except (DatabaseError, IngestStorageError):
            raise  # the next job retries
        except Exception as error:  # noqa: BLE001 - one upload must not stop the next ones
            upload.save(phase="failed", message=_message(error))
            logger.warning("an upload could not be imported: %s", type(error).__name__)
            return
        upload.save(phase="done")
        upload.remove_export()

    def _import_watched(self, watched: WatchedFolder, now: datetime) -> Iterator[object]:
        owner_id = current_owner()
        for path in uploads.find_answered(watched.folder, owner_id=owner_id):
            watched.forget(path)
        for path in watched.changed_paths():
            try:
                yield from self._import_export(path, owner_id, now)
            except ImportStopped:
                return
            except ChoiceNeeded as needed:
                if uploads.ask(path, needed.question, flag=needed.flag, owner_id=owner_id, now=now):
                    logger.warning("a watched export waits for an answer of its owner")
                    watched.wait(path)
            except UnreadableError as error:
                logger.warning("a watched export cannot be read: %s", error.issue.code)
                uploads.settle(path, owner_id=owner_id)
            except (DatabaseError, ApiException, OSError) as error:
                logger.warning("a watched export will be retried: %s", type(error).__name__)
                watched.forget(path)
            except Exception as error:  # noqa: BLE001 - it would fail again until it changes
                logger.warning("a watched export was skipped: %s", type(error).__name__)
                uploads.settle(path, owner_id=owner_id)
            yield path

    def _import_export(self, path: Path, owner_id: str, now: datetime) -> Iterator[object]:
        """Import what is new in a watched export. Raises ``ChoiceNeeded`` if a part was left out."""
        request = parse_import_request(uploads.find_answer(path, owner_id=owner_id))
        is_answered = uploads.is_answered(path, owner_id=owner_id)
        preview = preview_export(path, request=request, owner_id=owner_id, now=now)
        # An answer may concern a file of a part that a run has finished.
        if not is_answered:
            new = (
                part
                for part in preview.parts
                if not store.has_finished(part.target, part.files.fingerprint)
            )
            preview = replace(preview, parts=tuple(new))
        yield from self._import_parts(preview, now)
        for part in preview.parts:
            if part.missing_option is not None:
                raise part.missing_option
        if question := unknown_tables(preview):
            raise question
        uploads.settle(path, owner_id=owner_id)

    def _import_parts(
        self, preview: ExportPreview, now: datetime, *, on_run: OnProgress = lambda _run: None
    ) -> Iterator[object]:
        """Import the parts that need no decision of the owner."""

        def on_progress(run: ImportRun) -> None:
            on_run(run)
            if self._closed.is_set():
                raise ImportStopped

        for part in preview.parts:
            if part.missing_option is not None:
                logger.warning("an export needs an option from its owner")
                continue
            yield from import_steps(
                part,
                label=preview.label,
                skipped=preview.skipped if part is preview.parts[0] else (),
                workspace=self._workspace,
                now=now,
                on_progress=on_progress,
            )


def _message(error: Exception) -> str:
    if isinstance(error, UnreadableError):
        return error.issue.code.text.problem
    if isinstance(error, ApiException):
        return error.message
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__
