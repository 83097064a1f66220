"""Start the process of the sandbox and exchange messages with it."""

import logging
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader, RawIOBase
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

from typing_extensions import Buffer, override

from importers.core.importer import InstalledImporter
from importers.core.messages import MessageError, read_exactly, read_message, write_message
from importers.core.results import Issue, ReceiptCode, UnreadableError
from importers.core.text_recognition import LANGUAGES_VARIABLE

SILENCE_SECONDS = 120.0
"""Longest wait for a message. A working process sends one each second, between two items."""
CHECK_SECONDS = 1.0
PIPE_BYTES = 1024 * 1024
PROGRAM = Path(__file__).with_name("sandbox_worker.py")
Env = Mapping[str, str]
EMPTY: Env = MappingProxyType({})
_MEASURES = ("memory", "file access", "time", "system calls")

logger = logging.getLogger(__name__)


class SandboxError(Exception):
    """The process exited, was silent for too long, or broke the protocol."""


class Session:
    """A conversation with one process."""

    def __init__(self, export: Path, requests: IO[bytes], responses: IO[bytes]) -> None:
        self.export = export
        self._requests = requests
        self._responses = responses

    def open(self) -> None:
        """Wait until the process is confined. Raises ``UnreadableError`` for the export."""
        message = self.receive()
        if "unreadable" in message:
            raise _unreadable(message["unreadable"])
        warn_of_missing(message["enforced"])

    def send(self, request: dict[str, Any]) -> None:
        try:
            write_message(self._requests, request)
        except OSError as error:
            raise SandboxError("exited") from error

    def receive(self) -> dict[str, Any]:
        try:
            return read_message(self._responses)
        except (MessageError, OSError) as error:
            raise SandboxError(str(error)) from error

    def read(self, size: int) -> bytes:
        try:
            return read_exactly(self._responses, size)
        except (MessageError, OSError) as error:
            raise SandboxError(str(error)) from error


def warn_of_missing(enforced: Sequence[object]) -> None:
    """Log which measures this system does not have."""
    missing = [name for name, is_on in zip(_MEASURES, enforced, strict=True) if not is_on]
    if missing:
        logger.warning("this system does not limit importers in: %s", ", ".join(missing))


def _unreadable(values: Any) -> UnreadableError:
    issue = parse_issue(values)
    return UnreadableError(issue.code, detail=issue.detail)


def parse_issue(values: Any) -> Issue:
    code, detail = values
    known = code in ReceiptCode.__members__.values()
    return Issue(ReceiptCode(code) if known else ReceiptCode.UNREADABLE, str(detail)[:200])


class TimedPipe(RawIOBase):
    """A pipe that fails when nothing arrives for ``seconds``, or when ``is_stopped``."""

    def __init__(
        self,
        pipe: IO[bytes],
        *,
        seconds: float,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._pipe = pipe
        self._seconds = seconds
        self._is_stopped = is_stopped
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN | select.POLLHUP)

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Buffer) -> int:
        deadline = time.monotonic() + self._seconds
        while not self._poll.poll(CHECK_SECONDS * 1000):
            if self._is_stopped():
                raise TimeoutError("was stopped")
            if time.monotonic() >= deadline:
                raise TimeoutError("was silent for too long")
        return os.readv(self._pipe.fileno(), [buffer])


@contextmanager
def open_session(importer: InstalledImporter, export: Path) -> Iterator[Session]:
    """Start a process for the package of the importer; it ends with the block.

    Raises ``UnreadableError`` when the export cannot be opened, and ``SandboxError``.
    """
    arguments = (importer.package, importer.folder, export.absolute())
    with start_process(PROGRAM, *arguments) as process:
        responses = BufferedReader(
            TimedPipe(process.responses, seconds=SILENCE_SECONDS), PIPE_BYTES
        )
        session = Session(export, process.requests, responses)
        session.open()
        yield session


class Process(NamedTuple):
    """The standard input and output of a process."""

    requests: IO[bytes]
    responses: IO[bytes]


@contextmanager
def start_process(
    program: Path, *arguments: object, descriptors: Sequence[int] = (), environment: Env = EMPTY
) -> Iterator[Process]:
    """Start a program with a private folder as its first argument; it ends with the block.

    It inherits the ``descriptors``, and no environment but this and the languages of scans.
    """
    languages = {name: text for name, text in os.environ.items() if name == LANGUAGES_VARIABLE}
    with tempfile.TemporaryDirectory(prefix="pdpp-importer-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", program, folder, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"LC_ALL": "C.UTF-8", "TMPDIR": folder, **languages, **environment},
            pass_fds=descriptors,
        )
        if process.stdin is None or process.stdout is None:
            raise SandboxError("no pipes")
        try:
            yield Process(process.stdin, process.stdout)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            with suppress(OSError):  # unsent bytes
                process.stdin.close()
