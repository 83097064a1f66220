"""A real WebDAV server for tests: WsgiDAV over TLS on a free port, with the files of a folder."""

import contextlib
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from wsgidav.wsgidav_app import WsgiDAVApp

from importers.authoring.https_server import write_certificate

USER, PASSWORD = "ida", "abcd-efgh"


@dataclass
class WebdavServer:
    """A server that runs. ``requests`` are method and path of those that were answered."""

    port: int
    folder: Path
    authority: Path
    requests: list[tuple[str, str]] = field(default_factory=list)
    schemes: list[str] = field(default_factory=list)
    """How each request was signed: Basic, Digest, or an empty text."""

    def url(self, path: str = "/", port: int | None = None) -> str:
        return f"https://localhost:{port or self.port}{path}"

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


@contextlib.contextmanager
def webdav_server(base: Path, *, is_digest: bool = False) -> Iterator[WebdavServer]:
    """Serve ``base/files``, and take passwords or Digest. ``SSL_CERT_FILE`` must name the authority."""
    (base / "files").mkdir()
    write_certificate(base / "webdav", "localhost")
    app = WsgiDAVApp(
        {
            "provider_mapping": {"/": str(base / "files")},
            "simple_dc": {"user_mapping": {"*": {USER: {"password": PASSWORD}}}},
            "http_authenticator": {
                "accept_basic": not is_digest,
                "accept_digest": is_digest,
                "default_to_digest": is_digest,
            },
            "verbose": 0,
            "logging": {"enable": False},
        }
    )

    def count(environ: dict[str, Any], start_response: Any) -> Any:
        server.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        server.schemes.append(environ.get("HTTP_AUTHORIZATION", "").partition(" ")[0])
        return app(environ, start_response)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(base / "webdav.pem", base / "webdav.key")
    listening = _Listening(("127.0.0.1", 0), _Handler)
    listening.context = context
    listening.set_app(count)
    server = WebdavServer(listening.server_port, base / "files", base / "webdav.pem")
    thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


class _Handler(WSGIRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


class _Listening(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    context: ssl.SSLContext

    def get_request(self) -> Any:
        connected, address = super().get_request()
        connected.settimeout(60)
        options = {"server_side": True, "do_handshake_on_connect": False}
        return self.context.wrap_socket(connected, **options), address

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass
