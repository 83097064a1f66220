"""Read untrusted zip archives: member names are never used as paths, and zip bombs are rejected.

Members are never unpacked to disk. They are read as streams, if the sizes that the archive states
are plausible.
"""

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfileobj
from tempfile import NamedTemporaryFile
from typing import IO

from importers.core.results import Issue, ReceiptCode, UnreadableError

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


@dataclass(frozen=True, slots=True)
class ZipMember:
    """A file of an archive. ``issue`` says why it cannot be read, if so.

    All members share one open archive: opening it again would parse the directory again.
    """

    name: str
    size: int
    checksum: str
    archive: zipfile.ZipFile
    info: zipfile.ZipInfo
    modified_at: datetime | None
    issue: Issue | None

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        with self.archive.open(self.info) as stream:
            yield stream


@contextmanager
def convert_errors() -> Iterator[None]:
    """Convert every error of reading a file or an archive to ``UnreadableError``."""
    try:
        yield
    except _READ_ERRORS as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=type(error).__name__) from error


def is_zip(path: Path) -> bool:
    """Return whether the file begins as a zip archive does.

    ``zipfile.is_zipfile`` looks at the end, and a mailbox can end with an attached archive.
    """
    with path.open("rb") as stream:
        return stream.read(4) in {b"PK\x03\x04", b"PK\x05\x06"}


def list_members(path: Path) -> list[ZipMember]:
    """Return the files of an archive, and of the archives in it if it has nothing else.

    Raises ``UnreadableError`` when the file is no archive, or is a zip bomb as a whole.
    """
    with path.open("rb") as stream:
        members = _list(stream, path)
    if not members or not all(_is_archive(member) for member in members):
        return members
    return [each for member in members for each in _list_nested(member)]


def _is_archive(member: ZipMember) -> bool:
    return member.issue is None and member.name.lower().endswith(".zip")


def _list_nested(member: ZipMember) -> list[ZipMember]:
    """Return the files of an archive in an archive, such as a part of an export of Notion.

    It is copied to a temporary file, since reading a list at the end of a stream is slow.
    """
    if member.size > NESTED_MAX_BYTES:
        return [replace(member, issue=Issue(ReceiptCode.PACKED_OTHERWISE))]
    try:
        with NamedTemporaryFile() as spool:
            with convert_errors(), member.open() as stream:
                copyfileobj(stream, spool)
                spool.flush()
            return _list(spool, Path(spool.name))
    except UnreadableError as error:
        return [replace(member, issue=error.issue)]


def _list(stream: IO[bytes], path: Path) -> list[ZipMember]:
    """Raises ``UnreadableError``."""
    with convert_errors():
        if _directory_bytes(stream) > DIRECTORY_MAX_BYTES:
            raise UnreadableError(ReceiptCode.ZIP_BOMB)
        packed = stream.seek(0, os.SEEK_END)
        archive = zipfile.ZipFile(path)
    members = [_member(archive, info) for info in archive.infolist() if not info.is_dir()]
    if _is_bomb(sum(member.size for member in members if member.issue is None), packed):
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


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> ZipMember:
    checksum = f"{info.CRC:08x}"
    issue = _find_issue(info)
    modified_at = _modified_at(info)
    return ZipMember(info.filename, info.file_size, checksum, archive, info, modified_at, issue)


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


def _modified_at(info: zipfile.ZipInfo) -> datetime | None:
    try:
        return datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        return None
