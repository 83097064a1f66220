"""Imports beside requests: what was uploaded, and what lies in a watched folder."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from django.db import DatabaseError
from django.utils import timezone

from evidence.importing import uploads
from evidence.importing.codes import MEANINGS
from evidence.importing.items import UnreadableError
from evidence.importing.running import BusyError, Stopped, import_part
from evidence.importing.surveying import Survey, survey
from evidence.importing.uploads import Upload
from evidence.importing.watching import Watched, fresh
from evidence.importing.wishes import wish_of
from evidence.models.imports import ImportRun
from evidence.models.owners import the_owner
from evidence.refusals import IngestStorageError, Refusal

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
