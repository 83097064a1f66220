"""A folder in which exports are put: each file or folder right below it is one."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from evidence.importing import runs
from evidence.importing.surveying import Survey, Wish, survey

SETTLED_SECONDS = 30
"""What was written to more lately than this may still be on its way."""

Stamp = tuple[int, int, float]


@dataclass
class Watched:
    """Remembers what it has looked at, and looks again when it has changed."""

    folder: Path
    _seen: dict[Path, Stamp] = field(default_factory=dict)

    def surveys(self, *, owner_id: str, now: datetime) -> Iterator[tuple[Path, Survey]]:
        """What is new or has changed, and was not read to its end before. Raises as ``survey``;
        the next call goes on after what failed."""
        for path, stamp in self._changed(time.time()):
            self._seen[path] = stamp
            found = survey(path, wish=Wish(), owner_id=owner_id, now=now)
            fresh = tuple(
                part
                for part in found.parts
                if not runs.finished_before(
                    part.kind,
                    connection_id=part.target.connection_id,
                    fingerprint=part.fingerprint,
                )
            )
            yield path, Survey(found.label, fresh, found.left)

    def forget(self, path: Path) -> None:
        """It was not read to its end."""
        self._seen.pop(path, None)

    def _changed(self, now: float) -> Iterator[tuple[Path, Stamp]]:
        if not self.folder.is_dir():
            return
        for path in sorted(self.folder.iterdir()):
            if path.name.startswith(".") or path.is_symlink():
                continue
            stamp = _stamp(path)
            if self._seen.get(path) != stamp and stamp[2] < now - SETTLED_SECONDS:
                yield path, stamp


def _stamp(path: Path) -> Stamp:
    """How many files, how large, and when the latest was written."""
    files = [each.stat() for each in (path.rglob("*") if path.is_dir() else [path])]
    latest = max((each.st_mtime for each in files), default=path.stat().st_mtime)
    return len(files), sum(each.st_size for each in files), latest
