"""List and open the files of an export, whether it is a file, a folder or a zip archive.

Archives are untrusted: names of members are never used as paths, zip bombs are rejected, and nothing is
unpacked to disk. Members are read as streams, if the sizes that the archive states are plausible.
"""

import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import islice, pairwise
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from tempfile import NamedTemporaryFile
from typing import IO

from importers.core.results import ExportItems, Issue, ReceiptCode, UnreadableError, issue_item

MAX_COMPRESSION_RATIO = 200
"""Unpacked bytes per packed byte: text reaches 40, a zip bomb 1,000."""
RATIO_CHECKED_FROM_BYTES = 16 * 1024 * 1024
DIRECTORY_MAX_BYTES = 16 * 1024 * 1024
"""The central directory is held in memory: this much lists about 150,000 files."""
NESTED_MAX_BYTES = 1024 * 1024 * 1024
# zipfile decompresses other methods a block at a time, without a limit on the output.
_BOUNDED_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_END_RECORDS_MAX_BYTES = 64 * 1024 + 22 + 76

_READ_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,  # such as an archive of several volumes
    RuntimeError,  # a password is needed
    ValueError,  # impossible sizes and offsets
    OSError,
    UnicodeError,
)
PLAUSIBLE_YEARS = range(1971, 2101)
"""Other years come from a wrong unit or epoch."""
HEAD_BYTES = 8 * 1024
MAX_CACHED_HEADS = 1_000
"""Every importer looks at the head of every file, and a Maildir has very many files."""
_EDGE_BYTES = 64 * 1024
MAILDIR_PARTS = ("cur", "new")
MAILDIR_NAME = re.compile(r"\d{9,11}\.[^/]+")
"""Names of messages in a Maildir begin with a time."""
MAILDIR_MARK = "maildirfolder"
"""An empty file in each folder of Maildir++."""
MAX_NAMES_CHECKED = 100
DOCUMENT_SUFFIXES = (
    ".docx",
    ".xlsx",
    ".pptx",
    ".odt",
    ".ods",
    ".odp",
    ".epub",
    ".pages",
    ".numbers",
)
"""Zip archives that are one document."""
Opener = Callable[[], AbstractContextManager[IO[bytes]]]


@contextmanager
def convert_errors() -> Iterator[None]:
    """Convert every error of reading a file or an archive to ``UnreadableError``."""
    try:
        yield
    except _READ_ERRORS as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=type(error).__name__) from error


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file of an export.

    ``name`` is its path within the export, with slashes, and ``export`` the name of the export.
    ``checksum`` covers as much of the content as can be read cheaply. ``head_cache`` is shared by
    all files of the export.
    """

    name: str
    size: int
    opener: Opener
    checksum: str
    modified_at: datetime | None = None
    export: str = ""
    head_cache: dict[tuple[str, str], bytes] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def path(self) -> PurePosixPath:
        return PurePosixPath(self.name)

    @property
    def suffix(self) -> str:
        return self.path.suffix.lower()

    @property
    def head(self) -> bytes:
        """The first HEAD_BYTES; empty when the file cannot be read."""
        cached = self.head_cache.get((self.name, self.checksum))
        if cached is not None:
            return cached
        try:
            with self.open() as stream:
                head = stream.read(HEAD_BYTES)
        except UnreadableError:
            head = b""
        if len(self.head_cache) < MAX_CACHED_HEADS:
            self.head_cache[self.name, self.checksum] = head
        return head

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the file. Raises ``UnreadableError``, also while the caller reads."""
        with convert_errors(), self.opener() as stream:
            yield stream

    def read(self, *, max_bytes: int) -> bytes:
        """Return the content. Raises ``UnreadableError``, also for more than ``max_bytes``."""
        with self.open() as stream:
            content = stream.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise UnreadableError(ReceiptCode.TOO_LARGE)
        return content


@dataclass(frozen=True)
class Export:
    """The files of an export in the order of their names, and the issues of unreadable ones."""

    name: str
    files: tuple[ExportFile, ...]
    unreadable: tuple[tuple[str, Issue], ...] = ()


def open_export(path: Path) -> Export:
    """List the files of the export at this path.

    Raises ``UnreadableError`` when the path does not exist, cannot be read or is a damaged archive.
    """
    try:
        if path.is_dir():
            return _open_folder(path)
        if not path.is_file():
            raise UnreadableError(ReceiptCode.CANNOT_OPEN)
        # zipfile.is_zipfile looks at the end, and a mailbox can end with an attached archive.
        with path.open("rb") as stream:
            is_zip = stream.read(4) in {b"PK\x03\x04", b"PK\x05\x06"}
        if is_zip and path.suffix.lower() not in DOCUMENT_SUFFIXES:
            return _open_archive(path)
        return _export(path, [_export_file(path.resolve(), path.name)])
    except OSError:
        raise UnreadableError(ReceiptCode.CANNOT_OPEN) from None


def _export(
    path: Path, files: Iterable[ExportFile], unreadable: tuple[tuple[str, Issue], ...] = ()
) -> Export:
    name, head_cache = _printable(path.name), dict[tuple[str, str], bytes]()
    named = (replace(file, export=name, head_cache=head_cache) for file in files)
    return Export(name, tuple(named), unreadable)


def fingerprint(files: Iterable[ExportFile]) -> str:
    """Return a digest that changes when a file of the export changes."""
    digest = sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.size}\0{file.checksum}\0".encode("utf-8", "replace"))
    return digest.hexdigest()


def iter_items(
    files: Iterable[ExportFile],
    read: Callable[[ExportFile], ExportItems],
    *,
    may_be_empty: bool = False,
) -> ExportItems:
    """Yield the items of all files. An error ends its file with an item that reports the issue.

    So does a file without items, unless it ``may_be_empty``.
    """
    for file in files:
        is_empty = not may_be_empty
        try:
            for item in read(file):
                is_empty = False
                yield item
        except UnreadableError as error:
            yield issue_item(file.name, "", *error.issue)
        except Exception as error:  # noqa: BLE001 - a parser bug in one file must not stop the others
            yield issue_item(file.name, "", ReceiptCode.UNREADABLE, type(error).__name__)
        else:
            if is_empty:
                yield issue_item(file.name, "", ReceiptCode.EMPTY)


def _open_folder(root: Path) -> Export:
    """List a folder. Unreadable subfolders become issues; raises ``OSError`` for the folder."""
    unreadable: list[tuple[str, Issue]] = []

    def add_unreadable(error: OSError) -> None:
        folder = Path(error.filename)
        if folder == root:
            raise error
        name = _printable(folder.relative_to(root).as_posix())
        unreadable.append((name, Issue(ReceiptCode.CANNOT_OPEN)))

    files: list[ExportFile] = []
    for path in _walk(root, add_unreadable):
        name = path.relative_to(root).as_posix()
        try:
            files.append(_export_file(path, name))
        except UnreadableError as error:
            unreadable.append((_printable(name), error.issue))
    return _export(root, files, tuple(unreadable))


def _walk(root: Path, on_error: Callable[[OSError], None]) -> Iterator[Path]:
    """Yield files and links below a folder, without hidden files. Links are not followed."""
    for folder, folders, names in os.walk(root, onerror=on_error):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        folders[:] = sorted(name for name in folders if not _is_hidden(Path(folder, name)))
        for name in sorted([*names, *links]):
            if not name.startswith(".") and name != MAILDIR_MARK:
                yield Path(folder, name)


def _is_hidden(folder: Path) -> bool:
    if not folder.name.startswith("."):
        return False
    # Maildir subfolders start with a dot, too.
    with suppress(OSError), os.scandir(folder) as entries:
        names = (entry.name for entry in islice(entries, MAX_NAMES_CHECKED))
        return not any(map(_is_in_maildir, names))
    return True


def _is_hidden_member(name: str) -> bool:
    names = name.split("/")
    return (
        names[-1].startswith(".")
        or names[-1] == MAILDIR_MARK
        or any(
            folder == "__MACOSX" or (folder.startswith(".") and not _is_in_maildir(next_name))
            for folder, next_name in pairwise(names)
        )
    )


def _is_in_maildir(name: str) -> bool:
    return name in MAILDIR_PARTS or MAILDIR_NAME.match(name) is not None


def _export_file(path: Path, name: str) -> ExportFile:
    """Raises ``UnreadableError`` when the path is not, or no longer, a regular file."""
    try:
        status = path.lstat()
    except OSError:
        raise UnreadableError(ReceiptCode.CANNOT_OPEN) from None
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError(ReceiptCode.NO_FILE)
    modified_at = _modified_at(status.st_mtime)
    opener = partial(_open_path, path)
    return ExportFile(_printable(name), status.st_size, opener, _edge_digest(path), modified_at)


def _modified_at(seconds: float) -> datetime | None:
    """Return the time, or None for one that a file system has by mistake."""
    try:
        time = datetime.fromtimestamp(seconds).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
    return time if time.year in PLAUSIBLE_YEARS else None


def _open_path(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError:
        raise UnreadableError(ReceiptCode.CANNOT_OPEN) from None


def _edge_digest(path: Path) -> str:
    """Hash both ends of the file: its modification time changes when the file is copied."""
    digest = sha256()
    try:
        with path.open("rb") as stream:
            digest.update(stream.read(_EDGE_BYTES))
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _EDGE_BYTES))
            digest.update(stream.read(_EDGE_BYTES))
    except OSError:
        return ""
    return digest.hexdigest()


Member = tuple[ExportFile, Issue | None]
"""A file of an archive, and why it cannot be read, if so."""


def _open_archive(path: Path) -> Export:
    files, unreadable = [], []
    # Of several members with one name the last is the current one, so it must come first.
    for file, issue in reversed(_list_members(path)):
        if issue is not None:
            unreadable.append((file.name, issue))
        elif not _is_hidden_member(file.name):
            files.append(file)
    files.sort(key=lambda file: file.name)
    return _export(path, files, tuple(unreadable))


def _list_members(path: Path) -> list[Member]:
    """Return the files of an archive, and of the archives in it if it has nothing else.

    Raises ``UnreadableError`` when the file is no archive, or is a zip bomb as a whole.
    """
    with path.open("rb") as stream:
        members = _list(stream, path)
    if all(issue is None and file.suffix == ".zip" for file, issue in members):
        return [each for file, _ in members for each in _list_nested(file)]
    return members


def _list_nested(file: ExportFile) -> list[Member]:
    """Return the files of an archive in an archive, such as a part of an export of Notion.

    It is copied to a temporary file, since reading a list at the end of a stream is slow.
    """
    if file.size > NESTED_MAX_BYTES:
        return [(file, Issue(ReceiptCode.PACKED_OTHERWISE))]
    try:
        with NamedTemporaryFile() as spool:
            with file.open() as stream:
                copyfileobj(stream, spool)
                spool.flush()
            return _list(spool, Path(spool.name))
    except UnreadableError as error:
        return [(file, error.issue)]


def _list(stream: IO[bytes], path: Path) -> list[Member]:
    """Raises ``UnreadableError``. The members share one archive, whose directory is parsed once."""
    with convert_errors():
        if _directory_bytes(stream) > DIRECTORY_MAX_BYTES:
            raise UnreadableError(ReceiptCode.ZIP_BOMB)
        packed = stream.seek(0, os.SEEK_END)
        archive = zipfile.ZipFile(path)
    members = [_member(archive, info) for info in archive.infolist() if not info.is_dir()]
    if _is_bomb(sum(file.size for file, issue in members if issue is None), packed):
        raise UnreadableError(ReceiptCode.ZIP_BOMB)
    return members


def _directory_bytes(stream: IO[bytes]) -> int:
    """Return the size of the central directory; the larger if ZIP and ZIP64 records disagree."""
    stream.seek(max(0, stream.seek(0, os.SEEK_END) - _END_RECORDS_MAX_BYTES))
    tail = stream.read()
    end = tail.rfind(b"PK\x05\x06")
    zip64 = tail[max(0, end - 76) : end] if end >= 76 else b""
    sizes = [int.from_bytes(tail[end + 12 : end + 16], "little")] if end >= 0 else []
    if zip64.startswith(b"PK\x06\x06"):
        sizes.append(int.from_bytes(zip64[40:48], "little"))
    return max((size for size in sizes if size != 0xFFFFFFFF), default=0)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    try:
        modified_at = datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        modified_at = None
    name, opener = _printable(info.filename), partial(archive.open, info)
    file = ExportFile(name, info.file_size, opener, f"{info.CRC:08x}", modified_at)
    return file, _find_issue(info)


def _find_issue(info: zipfile.ZipInfo) -> Issue | None:
    if _is_unsafe(info):
        return Issue(ReceiptCode.UNSAFE_NAME)
    if info.flag_bits & 0x1:
        return Issue(ReceiptCode.ENCRYPTED)
    if info.compress_type not in _BOUNDED_METHODS:
        return Issue(ReceiptCode.PACKED_OTHERWISE)
    if _is_bomb(info.file_size, info.compress_size):
        return Issue(ReceiptCode.ZIP_BOMB)
    return None


def _is_unsafe(info: zipfile.ZipInfo) -> bool:
    name = info.orig_filename.replace("\\", "/")
    is_link = (info.external_attr >> 16) & 0o170000 == 0o120000
    return is_link or name.startswith("/") or ".." in name.split("/") or name[1:2] == ":"


def _is_bomb(unpacked: int, packed: int) -> bool:
    return unpacked > RATIO_CHECKED_FROM_BYTES and unpacked > packed * MAX_COMPRESSION_RATIO


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in name)
