"""An HTTPS server for tests that answers with what a test puts into it."""

import contextlib
import http.server
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.importers.dovecot import write_certificate

Answer = tuple[int, dict[str, str], bytes]
Handler = Callable[[str, str, dict[str, str], bytes], Answer]
"""Gets method, path, headers with small letters, and the body."""


@dataclass
class HttpsServer:
    """Answers with ``pages`` by path, or with ``handler``. ``requests`` are those that came."""

    port: int
    authority: Path
    pages: dict[str, Answer] = field(default_factory=dict)
    handler: Handler | None = None
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def url(self, path: str = "/") -> str:
        return f"https://localhost:{self.port}{path}"

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        self.requests.append((method, path, headers))
        if self.handler is not None:
            return self.handler(method, path, headers, body)
        return self.pages.get(path, (404, {}, b""))


@contextlib.contextmanager
def https_server() -> Iterator[HttpsServer]:
    """Start a server for localhost. ``SSL_CERT_FILE`` must name its authority."""

    class RequestHandler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, extra, content = server.answer(self.command, self.path, headers, body)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **extra}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            self.close_connection |= "close" in extra.get("Connection", "").lower()
            if len(content) != int(extra.get("Content-Length", len(content))):
                self.close_connection = True

        def log_message(self, *args: Any) -> None:
            pass

    class Listening(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

        def get_request(self) -> Any:
            connected, address = super().get_request()
            connected.settimeout(30)
            return context.wrap_socket(
                connected, server_side=True, do_handshake_on_connect=False
            ), address

    with tempfile.TemporaryDirectory() as folder:
        write_certificate(Path(folder) / "https", "localhost")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(Path(folder) / "https.pem", Path(folder) / "https.key")
        listening = Listening(("127.0.0.1", 0), RequestHandler)
        server = HttpsServer(listening.server_address[1], Path(folder) / "https.pem")
        thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            listening.server_close()
            thread.join()
