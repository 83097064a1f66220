"""Watch accounts for changes, those of one package in one process of the sandbox."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from typing_extensions import override

from importers.core.messages import read_message
from importers.core.sandbox_process import start_process, warn_of_missing
from importers.core.source import InstalledSource
from importers.core.source_process import (
    AccountAccess,
    SourceSession,
    certificate_settings,
    failures,
)

PROGRAM = Path(__file__).with_name("watch_worker.py")
MALLOC_ARENAS = "1"
"""An arena of the C library for each thread would exceed the limit of memory."""


class WatchSession(SourceSession):
    """A conversation with the thread of one account. Any thread may close it."""

    def __init__(
        self,
        source: InstalledSource,
        access: AccountAccess,
        streams: tuple[IO[bytes], IO[bytes], socket.socket],
        messages: socket.socket,
    ) -> None:
        super().__init__(source, access, streams)
        self._open = [messages]
        self._lock = threading.Lock()
        self._is_closed = False

    @override
    def on_connected(self, connected: socket.socket) -> None:
        """Keep a copy: to close it ends the wait of the thread for its server."""
        with self._lock:
            self._open.append(connected.dup())
        if self._is_closed:
            self.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for each in self._open:
                with suppress(OSError):  # the other side was faster
                    each.shutdown(socket.SHUT_RDWR)
                each.close()


class WatchProcess:
    """Starts the process for a package when it is needed, and again after it ended. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = ExitStack()
        self._control: socket.socket | None = None

    @contextmanager
    def open(self, source: InstalledSource, access: AccountAccess) -> Iterator[WatchSession]:
        """Start a thread for one account; it ends with the block. Raises ``SourceError``."""
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(2)]
        (messages, their_messages), (channel, their_channel) = pairs
        with messages, channel:
            with failures(), their_messages, their_channel:
                self._send(source, [their_messages.fileno(), their_channel.fileno()])
            streams = (messages.makefile("wb"), messages.makefile("rb"), channel)
            session = WatchSession(source, access, streams, messages)
            try:
                yield session
            finally:
                session.close()
                for each in streams:
                    with suppress(OSError):  # unsent bytes
                        each.close()

    def _send(self, source: InstalledSource, descriptors: list[int]) -> None:
        with self._lock:
            if self._control is not None:
                with suppress(OSError):  # it ended
                    socket.send_fds(self._control, [b"w"], descriptors)
                    return
            self._end()
            with ExitStack() as stack:
                control = _start_process(source, stack)
                self._process = stack.pop_all()
            self._control = control
            socket.send_fds(control, [b"w"], descriptors)

    def _end(self) -> None:
        self._control = None
        self._process.close()

    def close(self) -> None:
        with self._lock:
            self._end()


def _start_process(source: InstalledSource, stack: ExitStack) -> socket.socket:
    """Start the process; both it and the returned socket end with ``stack``."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    stack.callback(ours.close)
    with theirs:
        program = start_process(
            PROGRAM,
            source.package,
            source.folder,
            theirs.fileno(),
            descriptors=[theirs.fileno()],
            environment={**certificate_settings(), "MALLOC_ARENA_MAX": MALLOC_ARENAS},
        )
        process = stack.enter_context(program)
    warn_of_missing(read_message(process.responses)["enforced"])
    return ours
