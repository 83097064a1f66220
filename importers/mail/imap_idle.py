"""Wait for changes of an open folder (IDLE, RFC 2177)."""

import re
import socket
import time
from collections.abc import Iterator

from importers.core.source import ProblemCode, SourceError

ANSWER_SECONDS = 60.0
LINES_BYTES = 64 * 1024

_CHANGED = re.compile(rb"\* (?:\d+ (?:EXISTS|EXPUNGE|FETCH)\b|VANISHED\b)", re.IGNORECASE)


def folder_changes(connected: socket.socket, *, seconds: float) -> Iterator[None]:
    """Yield when IDLE has begun in the open folder, and then when the folder changes.

    IDLE begins again after ``seconds``, so that a lost connection is noticed. Lines are read from the
    socket, since the reader of imaplib cannot be used again after a timeout.
    """
    lines = _Lines(connected)
    while True:
        lines.send(b"IDLE1 IDLE")
        lines.wait_for(b"+")
        yield
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if any(_CHANGED.match(line) for line in lines.receive(left)):
                yield
        lines.send(b"DONE")
        lines.wait_for(b"IDLE1 OK")  # the next yield reports what changes meanwhile


class _Lines:
    """The lines that a server sends during IDLE."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._rest = b""

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
        return lines

    def wait_for(self, start: bytes) -> None:
        """Wait for a line that starts with ``start``. Raises ``SourceError``."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            for line in self.receive(left):
                if line.startswith(start):
                    return
                if line.startswith((b"IDLE1 NO", b"IDLE1 BAD")):
                    raise SourceError(ProblemCode.SERVER_REFUSED)
        raise SourceError(ProblemCode.TOO_SLOW)
