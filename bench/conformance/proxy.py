"""A local proxy that adds the bearer token, because the suite has no option for one.

It forwards Host and Origin unchanged, so that the suite tests the server's own checks.
"""

import contextlib
import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from typing_extensions import override

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class _Proxy(ThreadingHTTPServer):
    """Forwards all requests to a server, with a bearer token."""

    def __init__(self, target: str, bearer: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(target)
        self.bearer = bearer


class _Handler(BaseHTTPRequestHandler):
    server: _Proxy
    protocol_version = "HTTP/1.1"

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        target = self.server.target
        upstream = http.client.HTTPConnection(str(target.hostname), target.port, timeout=60)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                upstream.putheader(name, value)
        upstream.putheader("Authorization", f"Bearer {self.server.bearer}")
        upstream.putheader("Content-Length", str(len(body)))
        upstream.endheaders(body)
        # A scenario may close the connection before it reads the response.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._send(upstream.getresponse())
        upstream.close()

    def _send(self, response: http.client.HTTPResponse) -> None:
        content = response.read()
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    # The method names of BaseHTTPRequestHandler.
    do_GET = do_POST = do_DELETE = do_PUT = _forward  # noqa: N815
    do_OPTIONS = do_HEAD = _forward  # noqa: N815

    @override
    def log_message(self, *_args: object) -> None:
        """Print nothing, because the suite reports."""


@contextlib.contextmanager
def adding_bearer(target: str, bearer: str) -> Iterator[str]:
    """Yield the origin of a proxy that forwards all requests to `target`."""
    server = _Proxy(target, bearer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
