"""A collector of OpenTelemetry that keeps what it is told, as it came over the wire."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Collected:
    """Where it listens, and the paths and bodies of what it was sent."""

    address: str = ""
    paths: set[str] = field(default_factory=set)
    told: bytes = b""


@contextlib.contextmanager
def collecting() -> Iterator[Collected]:
    collected = Collected()

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collected.paths.add(self.path)
            collected.told += self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as listening:
        collected.address = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield collected
        finally:
            listening.shutdown()
            thread.join()
