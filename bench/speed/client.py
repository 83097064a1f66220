"""The load generator: a process that sends requests and measures how long each takes.

It reads a Plan from standard input and writes a Measurement to standard output, both as JSON. It has
limits of number and time, connects to the loopback interface only, and uses little CPU.
"""

import json
import re
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_CURSOR = re.compile(rb'"next_cursor":"([^"]+)"')
_RECORD = b'"object":"record"'
_SECONDS = 120


@dataclass(frozen=True)
class Plan:
    """The requests of a run and its limits.

    All clients together send `requests` in turn: `warm` of them unmeasured, then at most `max_requests`
    during `seconds`. `server` and `database` are process ids. With `follow`, one request is repeated
    with the cursor of each response until it returned that many records. `page` is the page size where
    records cannot be counted.
    """

    port: int
    requests: list[str]
    clients: int
    max_requests: int
    seconds: float
    warm: int
    server: int
    database: int
    follow: int = 0
    page: int = 0


@dataclass
class Measurement:
    """Milliseconds of each request, statuses other than 200, and CPU microseconds per request."""

    milliseconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    records: int = 0
    size: int = 0
    elapsed: float = 0.0
    server_cpu: float | None = None
    database_cpu: float | None = None


class KeepAliveConnection:
    """An HTTP connection that stays open."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def send(self, request: bytes) -> tuple[str, bytes]:
        """Send a request and return status and body. Raises OSError if the connection breaks."""
        self._socket.sendall(request)
        status = self._file.readline().split(b" ", 2)
        if len(status) < 2:
            raise ConnectionResetError("the server closed the connection")
        length = 0
        while (header := self._file.readline()) not in (b"\r\n", b""):
            if header[:15].lower() == b"content-length:":
                length = int(header[15:])
        return status[1].decode(), self._file.read(length)

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class Load:
    """Runs the clients of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._requests = [each.encode() for each in plan.requests]
        self._next = 0
        self._lock = threading.Lock()
        self.measurement = Measurement()

    def run(self) -> Measurement:
        plan = self._plan
        self._warm_up()
        before = _cpu(plan.server), _children_cpu(plan.database)
        started = time.perf_counter()
        self._until = started + plan.seconds
        threads = [threading.Thread(target=self._client) for _ in range(plan.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.measurement.elapsed = time.perf_counter() - started
        after = _cpu(plan.server), _children_cpu(plan.database)
        sent = max(1, len(self.measurement.milliseconds))
        self.measurement.server_cpu = _per_request(before[0], after[0], sent)
        self.measurement.database_cpu = _per_request(before[1], after[1], sent)
        return self.measurement

    def _warm_up(self) -> None:
        line = KeepAliveConnection(self._plan.port)
        for number in range(self._plan.warm):
            line.send(self._requests[number % len(self._requests)])
        line.close()

    def _client(self) -> None:
        line = KeepAliveConnection(self._plan.port)
        while (request := self._next_request()) is not None:
            started = time.perf_counter()
            status, body = line.send(request)
            milliseconds = (time.perf_counter() - started) * 1000
            with self._lock:
                self.measurement.milliseconds.append(milliseconds)
                self.measurement.size += len(body)
                if status != "200":
                    self.measurement.failures[status] += 1
        line.close()

    def _next_request(self) -> bytes | None:
        with self._lock:
            number = self._next
            self._next += 1
        is_over = number > 0 and time.perf_counter() >= self._until
        if number >= self._plan.max_requests or is_over:
            return None
        return self._requests[number % len(self._requests)]


def follow(plan: Plan) -> Measurement:
    """Request page after page, each with the cursor of the previous one."""
    measurement = Measurement()
    line = KeepAliveConnection(plan.port)
    first = plan.requests[0].encode()
    request: bytes | None = first
    started = time.perf_counter()
    while request is not None and measurement.records < plan.follow:
        request_started = time.perf_counter()
        status, body = line.send(request)
        measurement.milliseconds.append((time.perf_counter() - request_started) * 1000)
        measurement.records += body.count(_RECORD) or plan.page
        measurement.size += len(body)
        if status != "200":
            measurement.failures[status] += 1
        cursor = _CURSOR.search(body)
        request = (
            first.replace(b" HTTP/1.1", b"&cursor=%s HTTP/1.1" % cursor[1], 1) if cursor else None
        )
    measurement.elapsed = time.perf_counter() - started
    line.close()
    return measurement


def _per_request(before: int | None, after: int | None, requests: int) -> float | None:
    """Return microseconds per request, or None if the system does not report CPU time."""
    return None if before is None or after is None else (after - before) / requests / 1000


def _cpu(process: int) -> int | None:
    """Return the CPU nanoseconds of all threads of a process, or None if unavailable."""
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
    except (OSError, ValueError, IndexError):
        return None


def _children_cpu(process: int) -> int | None:
    """Return the CPU nanoseconds of all children: PostgreSQL has one process per connection."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return None
    return sum(_cpu(int(child)) or 0 for child in children)


def main() -> None:
    values: dict[str, Any] = json.load(sys.stdin)
    plan = Plan(**values)
    measurement = follow(plan) if plan.follow else Load(plan).run()
    json.dump(asdict(measurement), sys.stdout)


if __name__ == "__main__":
    main()
