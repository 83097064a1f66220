"""Run a live source in the sandbox, and connect it to the hosts of its settings."""

import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from importers.core.sandbox import (
    PIPE_BYTES,
    ReceivedItem,
    SandboxError,
    TimedPipe,
    begin_message,
    parse_item,
    start_process,
    warn_of_missing,
)
from importers.core.sandbox_worker import MessageError, read_exactly, read_message, write_message
from importers.core.source import Change, Container, InstalledSource, ProblemCode, SourceError
from importers.core.text import replace_unstorable

PROGRAM = Path(__file__).with_name("source_worker.py")
SILENCE_SECONDS = 600.0
"""Longest wait for a whole message: a slow server may take this long for a large part."""
CONNECT_SECONDS = 20.0
READ_SECONDS = 60.0
"""Longest wait of a source for bytes of its server."""
MAX_NAME_CHARS = 500

Known = Callable[[str, Collection[str] | None], list[tuple[str, str]]]
SeriesKeys = Callable[[], list[str]]


@dataclass(frozen=True, slots=True)
class AccountAccess:
    """What a source gets. ``skip`` has container and ref of items that stopped it before."""

    settings: Mapping[str, Any]
    credential: Mapping[str, str]
    now: str
    state: Mapping[str, Any] = field(default_factory=dict)
    skip: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What a source read up to a state. Read the bytes of the items in order."""

    items: list[ReceivedItem]
    seen: list[tuple[str, str, str]]
    changes: list[Change]
    gone: list[tuple[str, str, bool]]
    state: dict[str, Any]
    done: int
    total: int
    ends_pass: bool
    skipped: dict[str, int]


class SourceSession:
    """A conversation with a source, which asks for connections and for known items."""

    def __init__(
        self,
        source: InstalledSource,
        access: AccountAccess,
        streams: tuple[IO[bytes], IO[bytes], socket.socket],
    ) -> None:
        self._source = source
        self._access = access
        self._requests, self._responses, self._channel = streams
        self.started: list[str] | None = None
        """The item that the source is at."""

    def steps(self, known: Known, series_keys: SeriesKeys = list) -> Iterator[Step]:
        """Run the source. Raises ``SourceError``."""
        with failures():
            self._request("run")
        number = 0
        while True:
            with failures():
                message = self._receive(known, series_keys)
                if "done" in message:
                    return
                step = self._parse_step(message, number)
            number += len(step.items)
            yield step

    def containers(self) -> list[Container]:
        """Return what the owner can choose. Raises ``SourceError``."""
        with failures():
            self._request("containers")
            message = self._receive(lambda _container, _refs: [])
            found = message["containers"]
            names = [(_name(each["name"]), _name(each["title"])) for each in found]
            return [Container(*name, bool(each["is_usual"]), int(each["items"]))
                    for name, each in zip(names, found, strict=True)]  # fmt: skip

    def _request(self, what: str) -> None:
        access = self._access
        request = {
            "do": what,
            "object": self._source.object_path,
            "settings": access.settings,
            "credential": access.credential,
            "state": access.state,
            "now": access.now,
            "skip": access.skip,
        }
        write_message(self._requests, request)

    def _receive(self, known: Known, series_keys: SeriesKeys = list) -> dict[str, Any]:
        """Return the next message, after answering questions."""
        while True:
            begin_message(self._responses)
            message = read_message(self._responses)
            if "connect" in message:
                self._connect(str(message["connect"][0]), int(message["connect"][1]))
            elif "start" in message:
                self.started = [_name(each) for each in message["start"]]
            elif "known" in message:
                items = known(_name(message["known"]), message["refs"])
                write_message(self._requests, {"items": items})
            elif "series" in message:
                write_message(self._requests, {"keys": series_keys()})
            elif "failed" in message:
                code, detail = message["failed"]
                raise SourceError(ProblemCode(code), _name(detail))
            else:
                self.started = None
                return message

    def _connect(self, host: str, port: int) -> None:
        """Send a connected socket, or why there is none."""
        settings = self._access.settings
        private = bool(settings.get("allows_private"))
        try:
            connected = open_connection(self._source, settings, host, port, private=private)
        except SourceError as error:
            write_message(self._requests, {"failed": [error.code, error.detail]})
            return
        with connected:
            family = 6 if connected.family == socket.AF_INET6 else 4
            answer = {"family": family, "seconds": READ_SECONDS}
            write_message(self._requests, answer)
            socket.send_fds(self._channel, [b"s"], [connected.fileno()])

    def _parse_step(self, message: dict[str, Any], number: int) -> Step:
        items = [
            parse_item(number + at, values, self.read) for at, values in enumerate(message["items"])
        ]
        done, total = message["progress"]
        return Step(
            items,
            [(_name(a), _name(b), _name(c)) for a, b, c in message["seen"]],
            [
                Change(_name(container), _name(ref), _name(mark), dict(fields))
                for container, ref, mark, fields in message["changes"]
            ],
            [
                (_name(container), _name(ref), bool(keeps))
                for container, ref, keeps in message["gone"]
            ],
            dict(message["state"]),
            int(done),
            int(total),
            bool(message["ends_pass"]),
            {_name(kind): int(count) for kind, count in message["skipped"].items()},
        )

    def read(self, size: int) -> bytes:
        with failures():
            return read_exactly(self._responses, size)


@contextmanager
def open_source(
    source: InstalledSource, access: AccountAccess, *, is_stopped: Callable[[], bool]
) -> Iterator[SourceSession]:
    """Start a process for one account; it ends with the block. Raises ``SourceError``."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        arguments = (source.package, source.folder, theirs.fileno())
        with start_process(
            PROGRAM, *arguments, descriptors=[theirs.fileno()], variables=["SSL_CERT_FILE"]
        ) as process:
            theirs.close()
            pipe = TimedPipe(process.responses, seconds=SILENCE_SECONDS, is_stopped=is_stopped)
            responses = BufferedReader(pipe, PIPE_BYTES)
            with failures():
                warn_of_missing(read_message(responses)["enforced"])
            yield SourceSession(source, access, (process.requests, responses, ours))


def open_connection(
    source: InstalledSource, settings: Mapping[str, Any], host: str, port: int, *, private: bool
) -> socket.socket:
    """Connect to a host that the owner entered. Raises ``SourceError``."""
    if (host, port) not in source.host_addresses(settings):
        raise SourceError(ProblemCode.SOURCE_FAILED, "the source asked for another host")
    return connect_filtered(host, port, private=private)


def connect_filtered(host: str, port: int, *, private: bool) -> socket.socket:
    """Connect to a host unless the filter refuses its addresses. Raises ``SourceError``."""
    # Needs Django's settings, which the test kit of other packages has not.
    from evidence.ssrf_guard import BlockedAddressError, private_addresses, public_addresses

    try:
        addresses = (private_addresses if private else public_addresses)(host, port)
    except BlockedAddressError:
        code = ProblemCode.HOST_UNKNOWN
        with suppress(OSError, UnicodeError):
            socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)
            code = ProblemCode.PRIVATE_ADDRESS
        raise SourceError(code, host[:200]) from None
    for address in addresses:
        with suppress(OSError):
            connected = socket.create_connection((address, port), timeout=CONNECT_SECONDS)
            # A request in two parts must not wait for the acknowledgement of the first.
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connected
    raise SourceError(ProblemCode.UNREACHABLE, f"{host[:200]}:{port}")


@contextmanager
def failures() -> Iterator[None]:
    """Convert every error of the conversation to ``SourceError``."""
    try:
        yield
    except (MessageError, SandboxError, OSError) as error:
        raise SourceError(ProblemCode.SOURCE_FAILED, f"the source {error}"[:200]) from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        detail = "the source sent something else than a message"
        raise SourceError(ProblemCode.SOURCE_FAILED, detail) from None


def _name(value: Any) -> str:
    """Return a text of the source as it can be stored."""
    return replace_unstorable(str(value))[:MAX_NAME_CHARS]
