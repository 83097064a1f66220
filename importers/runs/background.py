"""Import uploaded exports and exports in watched folders in the background.

The imports of several owners take turns in steps of some seconds.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from django.db import DatabaseError
from django.utils import timezone

from evidence.errors import ApiException, IngestStorageError
from evidence.models.owners import Owner, current_owner, first_owner, in_turn
from importers.core.importer import ChoiceNeeded, ImportRequest, parse_import_request
from importers.core.results import UnreadableError
from importers.models import ImportRun
from importers.runs import store, uploads
from importers.runs.preview import ExportPreview, preview_export, unknown_tables
from importers.runs.runner import BusyError, ImportStopped, import_steps
from importers.runs.uploads import Upload

QUIET_SECONDS = 30
"""A file with a more recent write may still be incomplete."""

WAITING_SECONDS = 300
"""Pause before an export that only its owner can explain is looked at again."""

PathStamp = tuple[int, int, float]
OnRun = Callable[[ImportRun], object]
BUSY_SECONDS = 10.0
"""Pause before an upload is tried again whose export another process is importing."""
MAX_OWNERS = 4
"""Owners whose exports are imported at once, in turn. Each takes a sandbox and its memory."""
OTHER_OWNERS = "owners"
"""The folder in the watched folder that has a folder for each other owner, named by their id."""

logger = logging.getLogger(__name__)


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


def preview_new_parts(
    path: Path, *, request: ImportRequest, owner_id: str, now: datetime
) -> ExportPreview:
    """Preview the parts of an export that no run has finished. Raises as ``preview_export``."""
    preview = preview_export(path, request=request, owner_id=owner_id, now=now)
    parts = tuple(
        part
        for part in preview.parts
        if not store.has_finished(
            part.importer, connection_id=part.target.connection_id, fingerprint=part.fingerprint
        )
    )
    return ExportPreview(preview.label, parts, preview.skipped)


def _stamp(path: Path) -> PathStamp:
    """Return the number and total size of the files, and the time of the latest write."""
    files = [file.lstat() for file in (path.rglob("*") if path.is_dir() else [path])]
    latest = max((file.st_mtime for file in files), default=path.stat().st_mtime)
    return len(files), sum(file.st_size for file in files), latest


class ImportWorker:
    """Imports one export after another; ``close`` stops it at the next batch."""

    def __init__(
        self,
        workspace: Path,
        *,
        watch: Path | None,
        seconds: float,
        only: str | None = None,
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
        # An answer may concern a file of a part that a run has finished.
        is_answered = uploads.is_answered(path, owner_id=owner_id)
        look = preview_export if is_answered else preview_new_parts
        preview = look(path, request=request, owner_id=owner_id, now=now)
        yield from self._import_parts(preview, now)
        for part in preview.parts:
            if part.missing_option is not None:
                raise part.missing_option
        if question := unknown_tables(preview):
            raise question
        uploads.settle(path, owner_id=owner_id)

    def _import_parts(
        self, preview: ExportPreview, now: datetime, *, on_run: OnRun | None = None
    ) -> Iterator[object]:
        """Import the parts that need no decision of the owner."""

        def on_progress(run: ImportRun) -> None:
            if on_run is not None:
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
