"""Run importers in a subprocess without database, keys, environment or network.

A package's importers run over one export in a process of their own, see ``isolation``. A process that
dies or is silent for too long is started again behind the item that caused it.
"""

import logging
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, NamedTuple

from typing_extensions import Buffer, override

from evidence import limits
from importers.core.importer import ChoiceNeeded, FileSample, InstalledImporter, Options
from importers.core.results import (
    ITEM_MAX_BYTES,
    RECORD_MAX_BYTES,
    Issue,
    ReceiptCode,
    StaleRecords,
    UnreadableError,
)
from importers.core.sandbox_worker import MessageError, read_exactly, read_message, write_message
from importers.core.text_recognition import LANGUAGES_VARIABLE

MAX_CRASHES = 20
MAX_SAMPLES = 3
MAX_SAMPLE_ROWS = 5
MAX_SAMPLE_COLUMNS = 60
SILENCE_SECONDS = 120.0
"""Longest wait for a whole message. A working process sends one each second, between two items."""
TOTAL_SECONDS = 24 * 3600.0
"""Longest wait for all messages of a process. The time to store what it sends does not count."""
CHECK_SECONDS = 1.0
PIPE_BYTES = 1024 * 1024
PROGRAM = Path(__file__).with_name("sandbox_worker.py")
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
            issue = parse_issue(message["unreadable"])
            raise UnreadableError(issue.code, detail=issue.detail)
        warn_of_missing(message["enforced"])

    def send(self, request: dict[str, Any]) -> None:
        try:
            write_message(self._requests, request)
        except OSError as error:
            raise SandboxError("exited") from error

    def receive(self) -> dict[str, Any]:
        begin_message(self._responses)
        with _protocol():
            return read_message(self._responses)

    def read(self, size: int) -> bytes:
        with _protocol():
            return read_exactly(self._responses, size)


def warn_of_missing(enforced: Sequence[object]) -> None:
    """Log which measures this system does not have."""
    missing = [name for name, is_on in zip(_MEASURES, enforced, strict=True) if not is_on]
    if missing:
        logger.warning("this system does not limit importers in: %s", ", ".join(missing))


def parse_issue(values: Any) -> Issue:
    code, detail = values
    known = code in ReceiptCode.__members__.values()
    return Issue(ReceiptCode(code) if known else ReceiptCode.UNREADABLE, str(detail)[:200])


class TimedPipe(RawIOBase):
    """A pipe that fails when its reader waited ``seconds`` since ``begin``, however much arrived.

    It also fails when it waited TOTAL_SECONDS in all, and when ``is_stopped``.
    """

    def __init__(
        self, pipe: IO[bytes], *, seconds: float, is_stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._pipe = pipe
        self._seconds = seconds
        self._waited = self._waited_in_all = 0.0
        self._is_stopped = is_stopped
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN | select.POLLHUP)

    @override
    def readable(self) -> bool:
        return True

    def begin(self) -> None:
        """Start the time of the next message."""
        self._waited = 0.0

    @override
    def readinto(self, buffer: Buffer) -> int:
        has_arrived = False
        while not has_arrived:
            started = time.monotonic()
            has_arrived = bool(self._poll.poll(CHECK_SECONDS * 1000))
            waited = time.monotonic() - started
            self._waited += waited
            self._waited_in_all += waited
            if self._is_stopped():
                raise TimeoutError("was stopped")
            if self._waited >= self._seconds:
                raise TimeoutError("was silent for too long")
            if self._waited_in_all >= TOTAL_SECONDS:
                raise TimeoutError("took too long")
        return os.readv(self._pipe.fileno(), [buffer])


def begin_message(stream: IO[bytes]) -> None:
    """Start the time of a message that arrives through a ``TimedPipe``."""
    if isinstance(pipe := getattr(stream, "raw", None), TimedPipe):
        pipe.begin()


@contextmanager
def open_session(importer: InstalledImporter, export: Path) -> Iterator[Session]:
    """Start a process for the package of the importer; it ends with the block.

    Raises ``UnreadableError`` when the export cannot be opened, and ``SandboxError``.
    """
    arguments = (importer.package, importer.folder, export.absolute())
    with start_process(PROGRAM, *arguments) as process:
        pipe = TimedPipe(process.responses, seconds=SILENCE_SECONDS)
        responses = BufferedReader(pipe, PIPE_BYTES)
        session = Session(export, process.requests, responses)
        session.open()
        yield session


class Process(NamedTuple):
    """The standard input and output of a process."""

    requests: IO[bytes]
    responses: IO[bytes]


@contextmanager
def start_process(
    program: Path,
    *arguments: object,
    descriptors: Sequence[int] = (),
    variables: Sequence[str] = (),
) -> Iterator[Process]:
    """Start a program with a private folder as its first argument; it ends with the block.

    It inherits the ``descriptors``, and of the environment these ``variables`` and the languages of
    scans only.
    """
    names = (LANGUAGES_VARIABLE, *variables)
    inherited = {name: text for name in names if (text := os.environ.get(name))}
    with tempfile.TemporaryDirectory(prefix="pdpp-importer-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", program, folder, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"LC_ALL": "C.UTF-8", "TMPDIR": folder, **inherited},
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


class ExportChanged(UnreadableError):  # noqa: N818 - a kind of unreadable export
    """The export is not the one that was previewed."""


@dataclass(frozen=True, slots=True)
class ClaimedFiles:
    """Files of an export, as ranges of positions in its list of files."""

    export: Path
    ranges: tuple[tuple[int, int], ...]
    size: int
    fingerprint: str

    def __len__(self) -> int:
        return sum(last - first for first, last in self.ranges)


@dataclass(frozen=True, slots=True)
class Claims:
    """The files that importers claim, and the names and sizes of the others."""

    export_name: str
    files: dict[str, ClaimedFiles]
    failed: tuple[str, ...]
    unreadable: tuple[tuple[str, Issue], ...]
    unclaimed: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class FileHeader:
    """A file that the record with this stream and key names in its ``blob_ref``."""

    stream: str
    key: str
    blob_id: str
    media_type: str
    size: int


@dataclass(frozen=True, slots=True)
class RecordHeader:
    """A record; ``replaces`` and ``unknown`` are as in ``ParsedRecord``."""

    stream: str
    key: str
    size: int
    replaces: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(slots=True)
class ReceivedItem:
    """An item of an export. ``read`` returns the bytes of its files, and then of its records.

    The reader sets ``is_cut`` if they end early. The sandbox then sends the item again, or without
    files and records and with an issue.
    """

    number: int
    file: str
    location: str
    size: int
    issues: list[Issue] = field(default_factory=list)
    files: list[FileHeader] = field(default_factory=list)
    records: list[RecordHeader] = field(default_factory=list)
    stale: list[StaleRecords] = field(default_factory=list)
    read: Callable[[int], bytes] = lambda _size: b""
    is_cut: bool = False


class Position(NamedTuple):
    """What a process reads: the item that it parses, or the file that it opened before an item."""

    file: str = ""
    location: str = ""
    item: int = -1
    is_parsing: bool = False


def claim(
    session: Session,
    importers: Sequence[InstalledImporter],
    *,
    claimed: Sequence[tuple[int, int]] = (),
    is_chosen: bool = False,
    lacks_extra: bool = False,
) -> Claims:
    """Ask the importers of one package which files they read. Raises ``SandboxError``.

    ``claimed`` files belong to other packages. An importer that the owner chose takes a single file
    without recognizing it. If the server ``lacks_extra``, files that only the extra package reads
    have an issue that says so.
    """
    session.send(
        {
            "do": "claim",
            "importers": [[importer.name, importer.object_path] for importer in importers],
            "claimed": claimed,
            "is_chosen": is_chosen,
            "lacks_extra": lacks_extra,
        }
    )
    message = session.receive()
    with _protocol():
        return Claims(
            str(message["name"]),
            {
                importer.name: _parse_claim(session.export, each)
                for each in message["claims"]
                for importer in importers
                if importer.name == each["importer"]
            },
            tuple(f"{name}: {error}" for name, error in message["failed"]),
            tuple((str(name), parse_issue(issue)) for name, *issue in message["unreadable"]),
            tuple((str(name), int(size)) for name, size in message["unclaimed"]),
        )


def _parse_claim(export: Path, values: Any) -> ClaimedFiles:
    ranges = tuple((int(first), int(last)) for first, last in values["files"])
    return ClaimedFiles(export, ranges, int(values["size"]), str(values["fingerprint"]))


@contextmanager
def _protocol() -> Iterator[None]:
    """Convert every error in a message of the process to ``SandboxError``."""
    try:
        yield
    except (MessageError, OSError) as error:
        raise SandboxError(str(error)) from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise SandboxError("sent something else than a message") from error


def prepare(
    session: Session, importer: InstalledImporter, files: ClaimedFiles, options: Options
) -> Options:
    """Return the completed options. Raises ``ChoiceNeeded``.

    The options stay as they are when the importer fails: reading then reports the reason.
    """
    try:
        request = _request("prepare", importer, files, options)
        session.send(request | {"times": importer.time_fields})
        message = session.receive()
        with _protocol():
            if "choice" not in message:
                return Options.from_json(message.get("options") or options.to_json())
            question, *evidence, flag = map(str, message["choice"])
    except SandboxError:
        return options
    raise ChoiceNeeded(question, evidence=evidence, flag=flag)


def sample(
    session: Session, importer: InstalledImporter, files: ClaimedFiles, options: Options
) -> tuple[FileSample, ...]:
    """Return samples of the files; none if the importer fails."""
    try:
        session.send(_request("sample", importer, files, options))
        message = session.receive()
        with _protocol():
            return tuple(map(_parse_sample, message["samples"][:MAX_SAMPLES]))
    except SandboxError:
        return ()


def _parse_sample(values: Any) -> FileSample:
    def texts(cells: Any) -> tuple[str, ...]:
        return tuple(map(str, cells[:MAX_SAMPLE_COLUMNS]))

    return FileSample(
        file=str(values["file"]),
        header=texts(values["header"]),
        rows=tuple(map(texts, values["rows"][:MAX_SAMPLE_ROWS])),
        columns={str(name): str(column) for name, column in values["columns"].items()},
        readings={
            str(option): {str(value): str(text) for value, text in texts.items()}
            for option, texts in values["readings"].items()
        },
        language=str(values["language"])[:2],
    )


def read(
    importer: InstalledImporter, files: ClaimedFiles, options: Options, *, skip: int
) -> Iterator[ReceivedItem]:
    """Yield the items from ``skip`` on.

    Raises ``ExportChanged``. When the process dies, the item that it was parsing has an issue, or the
    file that it had opened. The next process reads one item of that file, which numbers the others:
    ``ahead`` is by how much the items that were read are more.
    """
    number, ahead, is_careful, began, position = skip, 0, False, time.monotonic(), Position()
    broken: dict[str, tuple[int, str]] = {}
    firsts: dict[str, int] = {}
    for _ in range(MAX_CRASHES):
        position = Position()
        try:
            for event in _read_once(
                importer, files, options, skip=number - ahead, is_careful=is_careful, broken=broken
            ):
                if not isinstance(event, Position):
                    firsts.setdefault(event.file, event.number)
                    event.number += ahead
                    yield event
                    number += not event.is_cut
                elif not (position.is_parsing and position.item == number - ahead):
                    position = event  # else the item that is parsed opens a file
        except SandboxError as error:
            logger.warning("%s: the process %s", importer.name, error)
            detail = f"the importer {error}"
            is_late = time.monotonic() - began >= TOTAL_SECONDS
            first = _first_item(position, number - ahead, firsts, broken)
            if is_careful and first is not None and not is_late:
                broken[position.file] = (first, detail)
                ahead = number - first
            elif is_careful or is_late:
                issue = Issue(ReceiptCode.UNREADABLE, detail)
                yield ReceivedItem(number, position.file, position.location, 0, issues=[issue])
                if is_late or not (position.is_parsing and position.item == number - ahead):
                    return
                number += 1
            is_careful = True
        else:
            return
    issue = Issue(ReceiptCode.UNREADABLE, "too many errors")
    yield ReceivedItem(number, position.file, "", 0, issues=[issue])


def _first_item(
    position: Position,
    number: int,
    firsts: Mapping[str, int],
    broken: Mapping[str, tuple[int, str]],
) -> int | None:
    """Return the first item of the file whose reading ended the process before an item, if known."""
    is_at_item = position.item == number
    first = number if is_at_item else firsts.get(position.file, -1)
    is_known = first > max((each for each, _ in broken.values()), default=-1)
    return first if is_known and not (is_at_item and position.is_parsing) else None


def _read_once(
    importer: InstalledImporter,
    files: ClaimedFiles,
    options: Options,
    *,
    skip: int,
    is_careful: bool,
    broken: Mapping[str, tuple[int, str]],
) -> Iterator[ReceivedItem | Position]:
    """Yield the items of one process; if careful, also what it is about to open or parse."""
    number = skip
    with open_session(importer, files.export) as session:
        request = _request("read", importer, files, options)
        request |= {"skip": skip, "careful": is_careful, "broken": broken}
        session.send(request | {"fingerprint": files.fingerprint})
        while not (message := session.receive()).get("done"):
            if "changed" in message:
                raise ExportChanged(ReceiptCode.CANNOT_OPEN)
            with _protocol():
                if place := message.get("open"):
                    yield Position(str(place[0]), item=_size(place[1]))
                    continue
                if place := message.get("start"):
                    yield Position(str(place[0]), str(place[1]), number, is_parsing=True)
                    continue
                items = [
                    parse_item(number + at, values, session.read)
                    for at, values in enumerate(message["items"])
                ]
            for item in items:
                yield item
                if item.is_cut:
                    raise SandboxError("exited")
            number += len(items)


def _request(
    what: str, importer: InstalledImporter, files: ClaimedFiles, options: Options
) -> dict[str, Any]:
    return {
        "do": what,
        "object": importer.object_path,
        "files": files.ranges,
        "options": options.to_json(),
    }


def parse_item(number: int, values: Any, read: Callable[[int], bytes]) -> ReceivedItem:
    file, location, size, issues, files, records, stale = values
    return ReceivedItem(
        number,
        str(file),
        str(location),
        _size(size),
        [parse_issue(issue) for issue in issues],
        [_parse_file(file) for file in files],
        _parse_records(records),
        [
            StaleRecords(str(stream), str(key), tuple(map(str, keep)), str(first))
            for stream, key, keep, first in stale
        ],
        read,
    )


def _parse_records(records: Any) -> list[RecordHeader]:
    parsed = [
        RecordHeader(
            str(stream),
            str(key),
            _size(length, at_most=RECORD_MAX_BYTES),
            tuple(map(str, replaces)),
            tuple(map(str, unknown)),
        )
        for stream, key, length, replaces, unknown in records
    ]
    _size(sum(record.size for record in parsed), at_most=ITEM_MAX_BYTES)
    return parsed


def _parse_file(values: Any) -> FileHeader:
    stream, key, blob_id, media_type, size = values
    length = _size(size, at_most=limits.BLOB_MAX_BYTES)
    return FileHeader(str(stream), str(key), str(blob_id), str(media_type), length)


def _size(value: Any, *, at_most: int = sys.maxsize) -> int:
    if type(value) is not int or not 0 <= value <= at_most:
        raise ValueError("not a size")
    return value
