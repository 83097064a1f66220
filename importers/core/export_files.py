"""The files of an export, whether it is a file, a folder or a zip archive."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO

from importers.core import zip_archive
from importers.core.results import Code, Piece, Pieces, Remark, UnreadableError, said

HEAD_BYTES = 8 * 1024
HEADS_KEPT = 1_000
"""Each kind looks at them again, and a Maildir has very many files."""
_EDGE_BYTES = 64 * 1024

Opener = Callable[[], AbstractContextManager[IO[bytes]]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One file. ``name`` is its path within the export, with slashes; ``stamp`` is what changes
    when its content does, as far as that is known without reading it. ``export`` is the name of the
    whole, ``heads`` what it remembers of the first of its files."""

    name: str
    size: int
    opener: Opener
    stamp: str
    modified_at: datetime | None = None
    export: str = ""
    heads: dict[tuple[str, str], bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def path(self) -> PurePosixPath:
        return PurePosixPath(self.name)

    @property
    def suffix(self) -> str:
        return self.path.suffix.lower()

    @property
    def head(self) -> bytes:
        """The first bytes; none when it cannot be read."""
        known = self.heads.get((self.name, self.stamp))
        if known is not None:
            return known
        try:
            with self.open() as stream:
                head = stream.read(HEAD_BYTES)
        except UnreadableError:
            head = b""
        if len(self.heads) < HEADS_KEPT:
            self.heads[self.name, self.stamp] = head
        return head

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Raises ``UnreadableError``, and so may reading."""
        with zip_archive.failures_told(), self.opener() as stream:
            yield stream

    def read(self, *, most: int) -> bytes:
        """All of it. Raises ``UnreadableError``, also when there is more than ``most``."""
        with self.open() as stream:
            content = stream.read(most + 1)
        if len(content) > most:
            raise UnreadableError(Code.TOO_LARGE)
        return content


@dataclass(frozen=True)
class Export:
    """``entries`` are in the order of their names; ``faults`` are files that cannot be read."""

    name: str
    entries: tuple[Entry, ...]
    faults: tuple[tuple[str, Remark], ...] = field(default=())


def open_export(path: Path) -> Export:
    """Raises ``UnreadableError`` for what is not there, may not be read or is no archive."""
    try:
        if path.is_dir():
            return _folder(path)
        if not path.is_file():
            raise UnreadableError(Code.CANNOT_OPEN)
        if zip_archive.is_zip(path):
            return _archive(path)
        return _named(path, [_file(path.resolve(), path.name)])
    except OSError:
        raise UnreadableError(Code.CANNOT_OPEN) from None


def _named(
    path: Path, entries: Iterable[Entry], faults: tuple[tuple[str, Remark], ...] = ()
) -> Export:
    name, heads = _shown(path.name), dict[tuple[str, str], bytes]()
    named = (replace(each, export=name, heads=heads) for each in entries)
    return Export(name, tuple(named), faults)


def fingerprint(entries: Iterable[Entry]) -> str:
    """Changes when the export does."""
    digest = sha256()
    for entry in entries:
        digest.update(f"{entry.name}\0{entry.size}\0{entry.stamp}\0".encode("utf-8", "replace"))
    return digest.hexdigest()


def each(entries: Iterable[Entry], read: Callable[[Entry], Pieces]) -> Pieces:
    """The pieces of every entry; one that cannot be read on is a piece that says so."""
    for entry in entries:
        try:
            yield from read(entry)
        except UnreadableError as error:
            yield Piece(entry.name, "", 0, said([error.remark]))
        except Exception as error:  # noqa: BLE001 - whatever is in one file, the others are read
            remark = Remark(Code.UNREADABLE, type(error).__name__)
            yield Piece(entry.name, "", 0, said([remark]))


def _folder(root: Path) -> Export:
    """A folder in it that may not be read is a fault; raises ``OSError`` for itself."""
    faults: list[tuple[str, Remark]] = []

    def cannot(error: OSError) -> None:
        folder = Path(error.filename)
        if folder == root:
            raise error
        faults.append((_shown(folder.relative_to(root).as_posix()), Remark(Code.CANNOT_OPEN)))

    entries: list[Entry] = []
    for path in _files(root, cannot):
        name = path.relative_to(root).as_posix()
        try:
            entries.append(_file(path, name))
        except UnreadableError as error:
            faults.append((_shown(name), error.remark))
    return _named(root, entries, tuple(faults))


def _files(root: Path, cannot: Callable[[OSError], None]) -> Iterator[Path]:
    """Hidden files are left out. Links, which may lead anywhere, are not followed."""
    for folder, folders, names in os.walk(root, onerror=cannot):
        links = [each for each in folders if Path(folder, each).is_symlink()]
        folders[:] = sorted(each for each in folders if not _is_hidden(Path(folder, each)))
        for name in sorted([*names, *links]):
            if not name.startswith("."):
                yield Path(folder, name)


def _is_hidden(folder: Path) -> bool:
    """Folders of Maildir are hidden by name only."""
    return folder.name.startswith(".") and not (folder / "cur").is_dir()


def _file(path: Path, name: str) -> Entry:
    """Raises ``UnreadableError`` for what is no file, or not any more."""
    try:
        facts = path.lstat()
    except OSError:
        raise UnreadableError(Code.CANNOT_OPEN) from None
    if not stat.S_ISREG(facts.st_mode):
        raise UnreadableError(Code.NO_FILE)
    opener = partial(_opened, path)
    return Entry(_shown(name), facts.st_size, opener, _edges(path), _moment(facts.st_mtime))


def _moment(seconds: float) -> datetime | None:
    """None for what a file system may say and a calendar may not."""
    try:
        return datetime.fromtimestamp(seconds).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError:
        raise UnreadableError(Code.CANNOT_OPEN) from None


def _edges(path: Path) -> str:
    """A digest of both ends: copying changes a file's date, and importing it reads it anyway."""
    digest = sha256()
    try:
        with path.open("rb") as stream:
            digest.update(stream.read(_EDGE_BYTES))
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _EDGE_BYTES))
            digest.update(stream.read(_EDGE_BYTES))
    except OSError:
        return ""
    return digest.hexdigest()


def _archive(path: Path) -> Export:
    entries, faults = [], []
    for member in reversed(zip_archive.members(path)):
        name = _shown(member.name)
        if member.fault is not None:
            faults.append((name, member.fault))
        elif not any(part.startswith(".") or part == "__MACOSX" for part in name.split("/")):
            opened = Entry(name, member.size, member.open, member.stamp, member.modified_at)
            entries.append(opened)
    # Of several under one name the last is meant, so it comes first.
    entries.sort(key=lambda entry: entry.name)
    return _named(path, entries, tuple(faults))


def _shown(name: str) -> str:
    """A name that can be stored and printed."""
    return "".join(char if char.isprintable() else "\ufffd" for char in name)
