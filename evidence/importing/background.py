"""Imports beside requests: what was uploaded, and what lies in a watched folder."""

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from django.utils import timezone

from evidence.importing import uploads
from evidence.importing.items import UnreadableError
from evidence.importing.running import Stopped, import_part
from evidence.importing.surveying import Survey, survey
from evidence.importing.uploads import Upload
from evidence.importing.wishes import wish_of
from evidence.models.imports import ImportRun
from evidence.models.owners import the_owner
from evidence.refusals import Refusal

logger = logging.getLogger(__name__)


@dataclass
class Imports:
    """Does what was asked for, one export after the other; ``stop`` ends it at the next batch."""

    workspace: Path
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def uploads(self) -> Path:
        return self.workspace / "uploads"

    def job(self) -> Iterator[object]:
        """An upload at a time."""
        for upload in uploads.wanted(self.uploads):
            with upload.claimed() as is_ours:
                if is_ours:
                    yield self._do(upload, timezone.now())

    def stop(self) -> None:
        self.stopping.set()

    def _do(self, upload: Upload, now: datetime) -> None:
        try:
            found = survey(
                upload.path,
                wish=wish_of(upload.state.wish),
                owner_id=the_owner(now).owner_id,
                now=now,
            )
            self.all_parts(found, now, on_run=lambda run: _note(upload, run))
        except Stopped:
            return
        except (Refusal, UnreadableError, OSError) as error:
            said = error.message if isinstance(error, Refusal) else type(error).__name__
            upload.save(phase="failed", message=said)
            logger.warning("an upload could not be imported: %s", type(error).__name__)
            return
        upload.save(phase="done")
        upload.remove()

    def all_parts(
        self, found: Survey, now: datetime, *, on_run: Callable[[ImportRun], object] | None = None
    ) -> None:
        """Every part that needs no word of the owner."""

        def progress(run: ImportRun) -> None:
            if on_run is not None:
                on_run(run)
            if self.stopping.is_set():
                raise Stopped

        ready = [part for part in found.parts if part.needed is None]
        for number, part in enumerate(ready):
            import_part(
                part,
                label=found.label,
                left=found.left if number == 0 else (),
                workspace=self.workspace,
                now=now,
                on_progress=progress,
            )


def _note(upload: Upload, run: ImportRun) -> None:
    upload.renew_claim()
    known = upload.state.runs
    if run.run_id not in known:
        upload.save(runs=[*known, run.run_id])
