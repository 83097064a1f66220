"""A mailbox file -> mails, in memory for one mail at a time."""

import re
from collections.abc import Iterator
from typing import IO, NamedTuple

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
