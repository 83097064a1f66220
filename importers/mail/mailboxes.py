"""The kinds of mail: a mailbox file, folders of Maildir, single mails."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import IO, NamedTuple

from importers.core.export_files import Entry, each
from importers.core.importer import Kind, Options
from importers.core.results import Code, Item, Piece, Pieces, Remark, UnreadableError, said
from importers.mail.records import Envelope, read_mail

BLOCK_BYTES = 256 * 1024
MAIL_BYTES = 48 * 1024 * 1024
"""The longest mail that is read; servers stop at half of it."""

_MARK = b"\nFrom "
_LINE_BYTES = 1_000
# A sender and a date, as in "From ida@example.org Mon Jan  5 08:30:00 2026": prose hardly says so.
_SEPARATOR = re.compile(
    rb"From [^\r\n]{0,400}?\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [^\r\n]{0,60}?\d\d?:\d\d"
    rb"[^\r\n]*\r?(?:\n|$)"
)
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)


class Mail(NamedTuple):
    """``raw`` is None for one that is too long; ``size`` counts its separator too."""

    raw: bytes | None
    separator: bytes
    offset: int
    size: int

    @property
    def date(self) -> str:
        """What the separator says after the sender."""
        return self.separator[5:].partition(b" ")[2].decode("latin-1").strip()


def split(stream: IO[bytes]) -> Iterator[Mail]:
    """The mails of an mbox of any dialect. What stands before the first separator is passed over.

    A separator follows an empty line or nothing, and has a date; only so are unquoted lines of
    text that begin with "From " told from it.
    """
    window = _Window(stream)
    start = window.find(0)
    while start is not None:
        following = window.find(start + 1)
        yield window.mail(start, following)
        if following is not None:
            window.drop(following)
            following = 0
        start = following
    if window.failure is not None:
        raise window.failure


class _Window:
    """The part of the file that is in memory, from ``_offset`` on."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._bytes = bytearray()
        self._offset = 0
        self._skipped = 0
        self._ended = False
        self.failure: Exception | None = None

    def find(self, at: int) -> int | None:
        """Where the next separator begins, reading on as needed; None at the end."""
        if at == 0 and self._offset == 0 and self._fill() and _SEPARATOR.match(self._bytes):
            return 0
        at = max(0, at - 1)
        while True:
            found = self._bytes.find(_MARK, at)
            if found < 0:
                at = max(0, len(self._bytes) - len(_MARK))
            elif self._ended or len(self._bytes) > found + _LINE_BYTES:
                if self._follows_blank(found) and _SEPARATOR.match(self._bytes, found + 1):
                    return found + 1
                at = found + 1
                continue
            else:
                at = found
            at -= self._thin(at)
            if not self._fill():
                return self._last(at)

    def mail(self, start: int, end: int | None) -> Mail:
        end = len(self._bytes) if end is None else end
        size = end - start + self._skipped
        line_end = self._bytes.find(b"\n", start, end) + 1 or end
        separator = bytes(self._bytes[start:line_end]).strip()
        offset = self._offset + start
        if size > MAIL_BYTES:
            return Mail(None, separator, offset, size)
        content = bytes(memoryview(self._bytes)[line_end:end])
        if b"\n>From " in content or b"\n>>" in content:
            content = _QUOTED.sub(rb"\1", content)
        return Mail(content, separator, offset, size)

    def drop(self, count: int) -> None:
        del self._bytes[:count]
        self._offset += count + self._skipped
        self._skipped = 0

    def _fill(self) -> bool:
        try:
            block = b"" if self._ended else self._stream.read(BLOCK_BYTES)
        except Exception as error:  # noqa: BLE001 - raised again when all mails before it are out
            self.failure, block = error, b""
        self._bytes += block
        self._ended = not block
        return bool(block)

    def _last(self, at: int) -> int | None:
        """Once more, now that no more bytes are to be expected."""
        found = self._bytes.find(_MARK, max(0, at))
        while found >= 0:
            if self._follows_blank(found) and _SEPARATOR.match(self._bytes, found + 1):
                return found + 1
            found = self._bytes.find(_MARK, found + 1)
        return None

    def _follows_blank(self, found: int) -> bool:
        before = self._bytes[max(0, found - 2) : found]
        return found == 0 or before.endswith(b"\n") or before == b"\n\r"

    def _thin(self, at: int) -> int:
        """Forgets the middle of a mail that is too long anyway; how many bytes."""
        if len(self._bytes) <= MAIL_BYTES + BLOCK_BYTES:
            return 0
        end = min(at, len(self._bytes) - BLOCK_BYTES)
        cut = end - BLOCK_BYTES
        del self._bytes[BLOCK_BYTES:end]
        self._skipped += cut
        return cut


_FROM = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,64}From [^\r\n]*\d\d:\d\d[^\r\n]*\r?\n[!-9;-~]+:")
_HEADER = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*){0,40}?"
    rb"(?:message-id|received|from|date|mime-version|return-path|subject|delivered-to):",
    re.IGNORECASE,
)


def _mboxes(entries: Sequence[Entry]) -> list[Entry]:
    """By the first line; those that are named so may have something before it."""
    return [
        entry
        for entry in entries
        if _FROM.match(entry.head) or (entry.suffix in (".mbox", ".mbx") and b"From " in entry.head)
    ]


def _maildirs(entries: Sequence[Entry]) -> list[Entry]:
    """Files right below ``cur`` and ``new`` of folders that have both."""
    folders: dict[str, set[str]] = {}
    for entry in entries:
        parents = entry.path.parent
        folders.setdefault(parents.parent.as_posix(), set()).add(parents.name)
    return [
        entry
        for entry in entries
        if entry.path.parent.name in ("cur", "new")
        and folders[entry.path.parent.parent.as_posix()] & {"cur", "new"}
        and _HEADER.match(entry.head)
    ]


def _singles(entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.suffix in (".eml", ".emlx", ".mht")]


def _read_mboxes(entries: Sequence[Entry], options: Options) -> Pieces:
    """The name of one mailbox among others is a folder; that of one alone is whatever it was saved
    as, and would be another the next time."""
    return each(entries, partial(_mbox, is_folder=len(entries) > 1))


def _mbox(entry: Entry, *, is_folder: bool) -> Pieces:
    folder = entry.path.stem if is_folder else None
    with entry.open() as stream:
        for number, mail in enumerate(split(stream), 1):
            place = f"mail {number:,}, at byte {mail.offset:,}"
            if mail.raw is None:
                make = said([Remark(Code.TOO_LARGE, f"{mail.size:,} bytes")])
            elif not mail.raw.strip():
                make = said([Remark(Code.EMPTY)])
            else:
                make = partial(read_mail, mail.raw, Envelope(folder, date=mail.date))
            yield Piece(entry.name, place, mail.size, make)


def _read_files(entries: Sequence[Entry], options: Options) -> Pieces:
    for entry in entries:
        yield Piece(entry.name, "", entry.size, partial(_file, entry))


def _file(entry: Entry) -> Item:
    raw = entry.read(most=MAIL_BYTES)
    if not _HEADER.match(raw[:65536]):
        raise UnreadableError(Code.MALFORMED)
    _, _, flags = entry.path.name.rpartition(":2,")
    is_maildir = entry.path.parent.name in ("cur", "new")
    folder = _maildir_folder(entry) if is_maildir else entry.path.parent.name or None
    return read_mail(raw, Envelope(folder, flags if is_maildir else None))


def _maildir_folder(entry: Entry) -> str:
    """``.Archive.2024`` below the root is Archive/2024, the root itself the inbox."""
    name = entry.path.parent.parent.name
    return name.strip(".").replace(".", "/") if name.startswith(".") else "inbox"


MBOX = Kind(
    name="mbox",
    title="mail from a mailbox file (mbox, Gmail Takeout)",
    source="mail",
    label="Mail",
    claim=_mboxes,
    read=_read_mboxes,
)
MAILDIR = Kind(
    name="maildir",
    title="mail from Maildir folders",
    source="mail",
    label="Mail",
    claim=_maildirs,
    read=_read_files,
)
EML = Kind(
    name="eml",
    title="single mails (.eml)",
    source="mail",
    label="Mail",
    claim=_singles,
    read=_read_files,
)
