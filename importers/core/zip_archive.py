"""Zip archives from anywhere: their names are never used as paths, and no bomb goes off.

Nothing is ever unpacked to disk under a name of the archive's choosing; members are read as
streams, and only as long as the sizes they state are believable.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from importers.core.results import Code, Remark, UnreadableError

RATIO_MOST = 200
"""Unpacked to packed: text reaches 40, a bomb 1,000."""
RATIO_FROM_BYTES = 16 * 1024 * 1024
"""What unpacks to less than this harms nobody, whatever its ratio."""
DIRECTORY_BYTES = 16 * 1024 * 1024
"""The list of an archive's files, which is held in memory: some 150,000 of them."""
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Of the others the library unpacks a block at once, whatever that comes to."""

_END_BYTES = 64 * 1024 + 22 + 76

_FAILURES = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,  # an archive of several volumes, and such
    RuntimeError,  # a password is needed
    ValueError,  # sizes and offsets that cannot be
    OSError,
    UnicodeError,
)


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an archive, or why it is not read. All share an archive that stays open, for its
    list would be read anew with every file of it."""

    name: str
    size: int
    stamp: str
    archive: zipfile.ZipFile
    info: zipfile.ZipInfo
    modified_at: datetime | None
    fault: Remark | None

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        with self.archive.open(self.info) as stream:
            yield stream


@contextmanager
def failures_told() -> Iterator[None]:
    """Turns whatever reading may raise into ``UnreadableError``."""
    try:
        yield
    except _FAILURES as error:
        raise UnreadableError(Code.DAMAGED, detail=type(error).__name__) from error


def is_zip(path: Path) -> bool:
    """By its first bytes: a mailbox that ends in an archive is none."""
    with path.open("rb") as stream:
        return stream.read(4) in {b"PK\x03\x04", b"PK\x05\x06"}


def members(path: Path) -> list[Member]:
    """Every file of an archive. Raises ``UnreadableError`` when it is none, or a bomb as a whole."""
    with failures_told():
        if _directory_bytes(path) > DIRECTORY_BYTES:
            raise UnreadableError(Code.ZIP_BOMB)
        archive = zipfile.ZipFile(path)
        packed = path.stat().st_size
    found = [_member(archive, info) for info in archive.infolist() if not info.is_dir()]
    if _is_bomb(sum(each.size for each in found if each.fault is None), packed):
        raise UnreadableError(Code.ZIP_BOMB)
    return found


def _directory_bytes(path: Path) -> int:
    """How long the list of the files is, as its end says; of two ends, as of large archives, the
    larger."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _END_BYTES))
        tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")
    large = tail[max(0, at - 76) : at] if at >= 76 else b""
    sizes = [int.from_bytes(tail[at + 12 : at + 16], "little")] if at >= 0 else []
    if large.startswith(b"PK\x06\x06"):
        sizes.append(int.from_bytes(large[40:48], "little"))
    return max((size for size in sizes if size != 0xFFFFFFFF), default=0)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    stamp = f"{info.CRC:08x}"
    fault = _fault(info)
    return Member(info.filename, info.file_size, stamp, archive, info, _modified(info), fault)


def _fault(info: zipfile.ZipInfo) -> Remark | None:
    if _is_unsafe(info):
        return Remark(Code.UNSAFE_NAME)
    if info.flag_bits & 0x1:
        return Remark(Code.ENCRYPTED)
    if info.compress_type not in _PACKINGS:
        return Remark(Code.PACKED_OTHERWISE)
    if _is_bomb(info.file_size, info.compress_size):
        return Remark(Code.ZIP_BOMB)
    return None


def _is_unsafe(info: zipfile.ZipInfo) -> bool:
    name = info.orig_filename.replace("\\", "/")
    is_link = (info.external_attr >> 16) & 0o170000 == 0o120000
    return is_link or name.startswith("/") or ".." in name.split("/") or name[1:2] == ":"


def _is_bomb(unpacked: int, packed: int) -> bool:
    return unpacked > RATIO_FROM_BYTES and unpacked > packed * RATIO_MOST


def _modified(info: zipfile.ZipInfo) -> datetime | None:
    try:
        return datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        return None
