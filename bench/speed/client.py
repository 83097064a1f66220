"""The load: a process of its own that sends requests over kept connections and notes how long each
took. Reads a plan from standard input and writes what it saw to standard output, both JSON.

Bounded in number and in time, to the loopback only, and light enough not to be what is measured.
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
    """`requests` are sent in turn by all clients together: at most `most` of them, and none after
    `seconds`; `warm` more are sent before anything is noted. The two process ids are of the server
    and of PostgreSQL's first process. With `follow` the one request is repeated with the cursor of
    each answer until there is none, or so many records have come, `page` in each where they cannot be
    told apart."""

    port: int
    requests: list[str]
    clients: int
    most: int
    seconds: float
    warm: int
    server: int
    database: int
    follow: int = 0
    page: int = 0


@dataclass
class Seen:
    """Milliseconds of each request, what else came than 200, and CPU microseconds a request."""

    milliseconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    records: int = 0
    size: int = 0
    elapsed: float = 0.0
    server_cpu: float | None = None
    database_cpu: float | None = None


class Line:
    """One kept connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def ask(self, request: bytes) -> tuple[str, bytes]:
        """Status and body. Raises `OSError` when the connection breaks."""
        self._socket.sendall(request)
        status = self._file.readline().split(b" ", 2)
        if len(status) < 2:
            raise ConnectionResetError("the server has hung up")
        length = 0
        while (header := self._file.readline()) not in (b"\r\n", b""):
            if header[:15].lower() == b"content-length:":
                length = int(header[15:])
        return status[1].decode(), self._file.read(length)

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class Load:
    """All clients of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._requests = [each.encode() for each in plan.requests]
        self._next = 0
        self._lock = threading.Lock()
        self.seen = Seen()

    def run(self) -> Seen:
        plan = self._plan
        self._warm_up()
        before = _cpu(plan.server), _family_cpu(plan.database)
        began = time.perf_counter()
        self._until = began + plan.seconds
        threads = [threading.Thread(target=self._client) for _ in range(plan.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.seen.elapsed = time.perf_counter() - began
        after = _cpu(plan.server), _family_cpu(plan.database)
        sent = max(1, len(self.seen.milliseconds))
        self.seen.server_cpu = _each(before[0], after[0], sent)
        self.seen.database_cpu = _each(before[1], after[1], sent)
        return self.seen

    def _warm_up(self) -> None:
        line = Line(self._plan.port)
        for number in range(self._plan.warm):
            line.ask(self._requests[number % len(self._requests)])
        line.close()

    def _client(self) -> None:
        line = Line(self._plan.port)
        while (request := self._take()) is not None:
            began = time.perf_counter()
            status, body = line.ask(request)
            took = (time.perf_counter() - began) * 1000
            with self._lock:
                self.seen.milliseconds.append(took)
                self.seen.size += len(body)
                if status != "200":
                    self.seen.failures[status] += 1
        line.close()

    def _take(self) -> bytes | None:
        with self._lock:
            number = self._next
            self._next += 1
        late = number > 0 and time.perf_counter() >= self._until
        if number >= self._plan.most or late:
            return None
        return self._requests[number % len(self._requests)]


def follow(plan: Plan) -> Seen:
    """Page after page, each with the cursor of the one before."""
    seen = Seen()
    line = Line(plan.port)
    first = plan.requests[0].encode()
    request: bytes | None = first
    began = time.perf_counter()
    while request is not None and seen.records < plan.follow:
        started = time.perf_counter()
        status, body = line.ask(request)
        seen.milliseconds.append((time.perf_counter() - started) * 1000)
        seen.records += body.count(_RECORD) or plan.page
        seen.size += len(body)
        if status != "200":
            seen.failures[status] += 1
        cursor = _CURSOR.search(body)
        request = (
            first.replace(b" HTTP/1.1", b"&cursor=%s HTTP/1.1" % cursor[1], 1) if cursor else None
        )
    seen.elapsed = time.perf_counter() - began
    line.close()
    return seen


def _each(before: int | None, after: int | None, requests: int) -> float | None:
    """Microseconds a request, where the system tells."""
    return None if before is None or after is None else (after - before) / requests / 1000


def _cpu(process: int) -> int | None:
    """Nanoseconds that the threads of a process have run; None where the system does not tell."""
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
    except (OSError, ValueError, IndexError):
        return None


def _family_cpu(process: int) -> int | None:
    """The same over the children of a process: PostgreSQL has one for each connection."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return None
    return sum(_cpu(int(child)) or 0 for child in children)


def main() -> None:
    given: dict[str, Any] = json.load(sys.stdin)
    plan = Plan(**given)
    seen = follow(plan) if plan.follow else Load(plan).run()
    json.dump(asdict(seen), sys.stdout)


if __name__ == "__main__":
    main()
