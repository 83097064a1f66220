"""An OpenTelemetry collector that stores received requests."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Collected:
    """The collector's URL, and paths and bodies of received requests."""

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
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield collected
        finally:
            listening.shutdown()
            thread.join()
