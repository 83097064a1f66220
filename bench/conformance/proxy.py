"""A proxy on the loopback that adds the bearer: the suite knows no token.

Host and Origin pass as they came, so that the server's own checks are what is tested.
"""

import contextlib
import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from typing_extensions import override

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


@contextlib.contextmanager
def adding_bearer(target: str, bearer: str) -> Iterator[str]:
    """The origin of the proxy, which passes everything on to `target`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(target, bearer))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(target: str, bearer: str) -> type[BaseHTTPRequestHandler]:
    where = urlsplit(target)

    class Handler(BaseHTTPRequestHandler):
        """One request of the suite."""

        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            length = int(self.headers.get("content-length", "0"))
            body = self.rfile.read(length)
            upstream = http.client.HTTPConnection(str(where.hostname), where.port, timeout=60)
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _HOP_BY_HOP:
                    upstream.putheader(name, value)
            upstream.putheader("Authorization", f"Bearer {bearer}")
            upstream.putheader("Content-Length", str(len(body)))
            upstream.endheaders(body)
            # A scenario may hang up before it has read its answer.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._answer(upstream.getresponse())
            upstream.close()

        def _answer(self, answer: http.client.HTTPResponse) -> None:
            content = answer.read()
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        # The names that the base class looks for.
        do_GET = do_POST = do_DELETE = do_PUT = _pass_on  # noqa: N815
        do_OPTIONS = do_HEAD = _pass_on  # noqa: N815

        @override
        def log_message(self, *_args: object) -> None:
            """Say nothing: the suite reports."""

    return Handler
