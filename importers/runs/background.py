"""Imports beside requests: what was uploaded, and what lies in a watched folder."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from django.db import DatabaseError
from django.utils import timezone

from evidence.errors import IngestStorageError, Refusal
from evidence.models.accounts import the_owner
from evidence.models.imports import ImportRun
from evidence.storing import uploads
from evidence.storing.uploads import Upload
from importers.core.importer import Wish, wish_of
from importers.core.results import MEANINGS, UnreadableError
from importers.runs import store
from importers.runs.preview import Survey, survey
from importers.runs.runner import BusyError, Stopped, import_part

SETTLED_SECONDS = 30
"""What was written to more lately than this may still be on its way."""

Stamp = tuple[int, int, float]


@dataclass
class Watched:
    """Remembers what it has looked at, and looks again when it has changed."""

    folder: Path
    _seen: dict[Path, Stamp] = field(default_factory=dict)

    def changed(self) -> Iterator[Path]:
        """What is new or other than when it was last looked at."""
        for path, stamp in self._settled(time.time()):
            if self._seen.get(path) != stamp:
                self._seen[path] = stamp
                yield path

    def forget(self, path: Path) -> None:
        """It was not read to its end."""
        self._seen.pop(path, None)

    def _settled(self, now: float) -> Iterator[tuple[Path, Stamp]]:
        if not self.folder.is_dir():
            return
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(".") or path.is_symlink():
                continue
            try:
                stamp = _stamp(path)
            except OSError:  # it has just been taken away
                continue
            if stamp[2] < now - SETTLED_SECONDS:
                yield path, stamp


def fresh(path: Path, *, owner_id: str, now: datetime) -> Survey:
    """What of an export was not read to its end before. Raises as ``survey`` does."""
    found = survey(path, wish=Wish(), owner_id=owner_id, now=now)
    parts = tuple(
        part
        for part in found.parts
        if not store.finished_before(
            part.kind, connection_id=part.target.connection_id, fingerprint=part.fingerprint
        )
    )
    return Survey(found.label, parts, found.left)


def _stamp(path: Path) -> Stamp:
    """How many files, how large, and when the latest was written."""
    files = [each.lstat() for each in (path.rglob("*") if path.is_dir() else [path])]
    latest = max((each.st_mtime for each in files), default=path.stat().st_mtime)
    return len(files), sum(each.st_size for each in files), latest


logger = logging.getLogger(__name__)

OnRun = Callable[[ImportRun], object]

BUSY_SECONDS = 10.0
"""Pause before an upload is tried again whose export another process is importing."""


class Imports:
    """Does what was asked for, one export after the other; ``close`` ends it at the next batch."""

    def __init__(
        self,
        workspace: Path,
        *,
        watch: Path | None,
        seconds: float,
        may_watch: Callable[[], bool] = lambda: True,
    ) -> None:
        """``may_watch`` says whether to look at the folder now, where several processes could."""
        self._workspace = workspace
        self._may_watch = may_watch
        self._watched = None if watch is None else Watched(watch)
        self._seconds = seconds
        self._next_look = 0.0
        self._closed = threading.Event()

    def job(self) -> Iterator[object]:
        """An export at a time."""
        root = self._workspace / "uploads"
        uploads.remove_old(root, now=time.time())
        for upload in uploads.wanted(root):
            with upload.claimed() as is_ours:
                if is_ours:
                    self._upload(upload, timezone.now())
                    yield upload
        due = time.monotonic() >= self._next_look
        if self._watched is not None and due and self._may_watch():
            self._next_look = time.monotonic() + self._seconds
            yield from self._look(self._watched, timezone.now())

    def close(self) -> None:
        self._closed.set()

    def _upload(self, upload: Upload, now: datetime) -> None:
        try:
            wish = wish_of(upload.state.wish)
            found = survey(upload.path, wish=wish, owner_id=the_owner(now).owner_id, now=now)
            self._all_parts(found, now, on_run=lambda run: _note(upload, run))
        except Stopped:
            return
        except BusyError:
            self._closed.wait(BUSY_SECONDS)  # the upload stays wanted
            return
        except (DatabaseError, IngestStorageError):
            raise  # it is tried again
        except Exception as error:  # noqa: BLE001 - whatever it was, the next upload is imported
            upload.save(phase="failed", message=_worded(error))
            logger.warning("an upload could not be imported: %s", type(error).__name__)
            return
        upload.save(phase="done")
        upload.remove()

    def _look(self, watched: Watched, now: datetime) -> Iterator[object]:
        for path in watched.changed():
            try:
                self._all_parts(fresh(path, owner_id=the_owner(now).owner_id, now=now), now)
            except Stopped:
                return
            except UnreadableError as error:
                logger.warning("a watched export cannot be read: %s", error.remark.code)
            except (DatabaseError, Refusal, OSError) as error:
                logger.warning("a watched export waits: %s", type(error).__name__)
                watched.forget(path)
            except Exception as error:  # noqa: BLE001 - until it changes, for it would fail again
                logger.warning("a watched export is left out: %s", type(error).__name__)
            yield path

    def _all_parts(self, found: Survey, now: datetime, *, on_run: OnRun | None = None) -> None:
        """Every part that needs no word of the owner."""

        def progress(run: ImportRun) -> None:
            if on_run is not None:
                on_run(run)
            if self._closed.is_set():
                raise Stopped

        for part in found.parts:
            if part.needed is not None:
                logger.warning("an export waits for its owner to say how it is meant")
                continue
            left = found.left if part is found.parts[0] else ()
            import_part(
                part,
                label=found.label,
                left=left,
                workspace=self._workspace,
                now=now,
                on_progress=progress,
            )


def _worded(error: Exception) -> str:
    if isinstance(error, UnreadableError):
        return MEANINGS[error.remark.code].sentence
    if isinstance(error, Refusal):
        return error.message
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


def _note(upload: Upload, run: ImportRun) -> None:
    upload.touch()
    known = upload.state.runs
    if run.run_id not in known:
        upload.save(runs=[*known, run.run_id])
