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
        if not runs.finished_before(
            part.kind, connection_id=part.target.connection_id, fingerprint=part.fingerprint
        )
    )
    return Survey(found.label, parts, found.left)


def _stamp(path: Path) -> Stamp:
    """How many files, how large, and when the latest was written."""
    files = [each.lstat() for each in (path.rglob("*") if path.is_dir() else [path])]
    latest = max((each.st_mtime for each in files), default=path.stat().st_mtime)
    return len(files), sum(each.st_size for each in files), latest
