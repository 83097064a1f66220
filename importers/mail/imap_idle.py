"""Wait for changes of a mailbox: IDLE (RFC 2177) in the open folder, STATUS now and then in all."""

import re
import socket
import time
from collections.abc import Iterator, Sequence

from importers.core.source import ProblemCode, SourceError

ANSWER_SECONDS = 60.0
LINES_BYTES = 64 * 1024
STATUS = b"(UIDVALIDITY UIDNEXT MESSAGES HIGHESTMODSEQ)"

_CHANGED = re.compile(rb"\* (?:\d+ (?:EXISTS|EXPUNGE|FETCH)\b|VANISHED\b)", re.IGNORECASE)


def changes(
    connected: socket.socket, folders: Sequence[bytes], *, seconds: float
) -> Iterator[bool]:
    """Yield True at first and when something changes.

    After each ``seconds``, IDLE ends and begins again, so that a lost connection is noticed. The
    state of all ``folders`` is then compared; False means that none has changed. Lines are read from
    the socket, since the reader of imaplib cannot be used again after a timeout.
    """
    lines = _Lines(connected)
    known: list[bytes] = []
    while True:
        found = lines.status(folders)
        if found != known or not folders:
            yield True
        else:
            yield False
        known = found
        lines.send(b"W IDLE")
        lines.wait_for(b"+")
        deadline = time.monotonic() + seconds
        while lines.is_changed or (left := deadline - time.monotonic()) > 0:
            if lines.is_changed:
                lines.is_changed = False
                yield True
            else:
                lines.receive(left)
        lines.send(b"DONE")
        lines.wait_for(b"W OK")


class _Lines:
    """The lines that a server sends. ``is_changed``: some said that the open folder changed."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._rest = b""
        self.is_changed = False

    def send(self, line: bytes) -> None:
        self._socket.sendall(line + b"\r\n")

    def receive(self, seconds: float) -> list[bytes]:
        """Return the lines that are there, after waiting for the first. Raises ``SourceError``."""
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(LINES_BYTES)
        except TimeoutError:
            return []
        *lines, self._rest = (self._rest + data).split(b"\r\n")
        is_over = not data or any(line.upper().startswith(b"* BYE") for line in lines)
        if is_over or len(self._rest) > LINES_BYTES:
            raise SourceError(ProblemCode.CONNECTION_LOST)
        self.is_changed |= any(_CHANGED.match(line) for line in lines)
        return lines

    def wait_for(self, start: bytes) -> list[bytes]:
        """Return the lines before the one that starts so. Raises ``SourceError``."""
        deadline = time.monotonic() + ANSWER_SECONDS
        found: list[bytes] = []
        while (left := deadline - time.monotonic()) > 0:
            for line in self.receive(left):
                if line.startswith(start):
                    return found
                if line.startswith((b"W NO", b"W BAD")):
                    raise SourceError(ProblemCode.SERVER_REFUSED)
                found.append(line)
        raise SourceError(ProblemCode.TOO_SLOW)

    def status(self, folders: Sequence[bytes]) -> list[bytes]:
        """Return the lines about the state of folders, to be compared."""
        found: list[bytes] = []
        for folder in folders:
            self.send(b"W STATUS " + folder + b" " + STATUS)
            found += self.wait_for(b"W OK")
        # A name may be a literal, on a line of its own.
        return [line for line in found if line[:2] != b"* " or line[:8] == b"* STATUS"]
