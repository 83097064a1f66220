"""Attackers without a credential, and what they cost: memory, temporary files, other clients' time."""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import httpx2

ATTACKER = "127.0.0.2"
CLIENT = "127.0.0.3"
MEGABYTE = 1024 * 1024
LARGE = 49 * MEGABYTE
SMALL = 64 * 1024
DRIP_SECONDS = 8.0


@dataclass(frozen=True)
class Attack:
    """What a stranger sends: a head, and then a piece again and again."""

    name: str
    head: bytes
    piece: bytes
    times: int

    def send(self, port: int) -> None:
        """Send all of it, or as much as the server takes, and read what it answers."""
        with contextlib.suppress(OSError), dial(port) as line:
            line.sendall(self.head)
            for _ in range(self.times):
                line.sendall(self.piece)
            line.settimeout(5)
            while line.recv(65_536):
                pass


def dial(port: int, address: str = ATTACKER) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 10, source_address=(address, 0))


def head(path: str, *lines: str, length: int | None) -> bytes:
    announced = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    said = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", announced, *lines]
    return "\r\n".join([*said, "", ""]).encode()


FORM = "Content-Type: application/x-www-form-urlencoded"
JSON = "Content-Type: application/json"
BEARER = "Authorization: Bearer unknown"
ENCODED = b"%41" * (MEGABYTE // 3)
TIMES = LARGE // len(ENCODED)
CHUNK = b"%x\r\n%s\r\n" % (len(ENCODED), ENCODED)


def post(name: str, path: str, *lines: str, start: bytes = b"", piece: bytes, times: int) -> Attack:
    length = len(start) + len(piece) * times
    return Attack(name, head(path, *lines, length=length) + start, piece, times)


def form_data(part: bytes) -> bytes:
    return b'--x\r\nContent-Disposition: form-data; name="%s"; filename="a"\r\n\r\n' % part


ATTACKS = (
    post("a form of 49 MB with any bearer", "/oauth/token", FORM, BEARER,
         start=b"code=", piece=ENCODED, times=TIMES),
    Attack("a form of 49 MB in chunks", head("/oauth/token", FORM, BEARER, length=None),
           CHUNK, TIMES),
    post("records of 49 MB with a wrong bearer", "/v1/ingest/messages?connector_id=mail", BEARER,
         piece=ENCODED, times=TIMES),
    post("an export of 49 MB with a wrong session", "/imports",
         "Cookie: pdpp-session=unknown", "Content-Type: multipart/form-data; boundary=x",
         start=form_data(b"file"), piece=ENCODED, times=TIMES),
    post("a call of 1 MB with a wrong bearer", "/mcp", JSON, BEARER, piece=ENCODED, times=1),
    post("a form of 64 KiB", "/oauth/token", FORM,
         start=b"code=", piece=b"%41" * (SMALL // 3 - 2), times=1),
    post("a form of 64 KiB and 32,768 fields", "/oauth/token", FORM,
         piece=b"a&" * (SMALL // 2), times=1),
    post("nested JSON of 64 KiB", "/oauth/register", JSON, piece=b"[" * SMALL, times=1),
    Attack("a query of 60 KB", b"GET /v1/search?" + b"a=&" * 20_000
           + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"", 0),
    Attack("a header of 49 MB", b"GET / HTTP/1.1\r\nX: ", ENCODED, TIMES),
    Attack("headers of 49 MB", b"GET / HTTP/1.1\r\n", b"x: y\r\n" * (MEGABYTE // 6), TIMES),
    Attack("requests of 10 MB in a row", b"", b"GET / HTTP/1.1\r\n\r\n" * (MEGABYTE // 18), 10),
)  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """By how much the memory and the temporary files of a process have grown, at most, in MB."""

    memory: float
    files: float


@contextlib.contextmanager
def measured(pid: int) -> Iterator[list[Cost]]:
    """The cost for the process, in the list when the block has ended."""
    costs: list[Cost] = []
    (Path("/proc") / str(pid) / "clear_refs").write_text("5")  # resets the peak of its memory
    before, ended, files = memory(pid), threading.Event(), [0.0]

    def watch() -> None:
        while not ended.wait(0.02):
            files[0] = max(files[0], _temporary(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield costs
    finally:
        ended.set()
        watcher.join()
        costs.append(Cost(memory(pid, "VmHWM") - before, files[0]))


def memory(pid: int, name: str = "VmRSS") -> float:
    """Megabytes of resident memory, now or, as VmHWM, at most since the last reset."""
    lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(kilobytes) / 1024


def _temporary(pid: int) -> float:
    """Megabytes in files that are open and have no name any more."""
    size = 0
    for file in (Path("/proc") / str(pid) / "fd").iterdir():
        with contextlib.suppress(OSError):
            if str(file.readlink()).endswith("(deleted)"):
                size += file.stat().st_size
    return size / MEGABYTE


def cost_of(attack: Attack, *, port: int, pid: int, at_once: int = 1) -> Cost:
    with measured(pid) as costs, ThreadPoolExecutor(at_once) as attackers:
        for _ in range(at_once):
            attackers.submit(attack.send, port)
    [cost] = costs
    return cost


SLOW_STARTS = (
    b"GET / HTTP/1.1\r\nHost: local",
    head("/oauth/token", FORM, length=SMALL),
    head("/v1/search", BEARER, length=SMALL),
    head("/login", FORM, length=SMALL),
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65536\r\n\r\n",
)


@dataclass
class Flood:
    """Sockets that send a byte every DRIP_SECONDS, and idle ones. What is closed dials again."""

    port: int
    slow: int = 500
    idle: int = 1000
    refused: int = 0
    _lines: dict[socket.socket, bytes] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def going_on(self) -> Iterator["Flood"]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def _run(self) -> None:
        wanted = [SLOW_STARTS[number % len(SLOW_STARTS)] for number in range(self.slow)]
        wanted += [b""] * self.idle
        with selectors.DefaultSelector() as selector:
            for start in wanted:
                self._dial(selector, start)
            while not self._ended.is_set():
                ends = time.monotonic() + DRIP_SECONDS
                lost = self._lose(selector, until=ends)
                for start in lost:
                    self._dial(selector, start)
                self._drip()
            for line in self._lines:
                line.close()

    def _dial(self, selector: selectors.BaseSelector, start: bytes) -> None:
        try:
            line = dial(self.port)
            line.sendall(start)
            line.settimeout(0)
        except OSError:
            self.refused += 1
            return
        selector.register(line, selectors.EVENT_READ)
        self._lines[line] = start

    def _lose(self, selector: selectors.BaseSelector, *, until: float) -> list[bytes]:
        """What the lines had begun with that the server closed until then."""
        lost = []
        while not self._ended.is_set() and (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(min(left, 0.5)):
                line = key.fileobj
                assert isinstance(line, socket.socket)
                with contextlib.suppress(OSError):
                    if line.recv(65_536):
                        continue
                selector.unregister(line)
                lost.append(self._lines.pop(line))
                line.close()
        return lost

    def _drip(self) -> None:
        for line, start in self._lines.items():
            if start:
                with contextlib.suppress(OSError):
                    line.send(b"x")


@dataclass(frozen=True)
class Times:
    """How long an ordinary client's requests took, in seconds, and how many were not answered."""

    seconds: list[float]
    failed: int

    @property
    def p99(self) -> float:
        return quantiles(self.seconds, n=100)[98] if len(self.seconds) > 1 else float("inf")

    def __str__(self) -> str:
        half = quantiles(self.seconds, n=2)[0] if len(self.seconds) > 1 else float("inf")
        return (
            f"{len(self.seconds)} answered, {self.failed} not,"
            f" median {half * 1000:.1f} ms, p99 {self.p99 * 1000:.1f} ms"
        )


def asked_for(seconds: float, *, port: int, token: str, path: str) -> Times:
    """The times of an ordinary client that asks without rest, with a connection kept alive."""
    times, failed = [], 0
    transport = httpx2.HTTPTransport(local_address=CLIENT)
    url, headers = f"http://127.0.0.1:{port}{path}", {"Authorization": f"Bearer {token}"}
    ends = time.monotonic() + seconds
    with httpx2.Client(transport=transport, headers=headers, timeout=30) as http:
        while time.monotonic() < ends:
            began = time.perf_counter()
            try:
                good = http.get(url).status_code == 200
            except httpx2.TransportError:
                good = False
            times.append(time.perf_counter() - began)
            failed += not good
            time.sleep(0.02)
    return Times(times, failed)


def open_files(pid: int) -> int:
    return sum(1 for _ in (Path("/proc") / str(pid) / "fd").iterdir())
