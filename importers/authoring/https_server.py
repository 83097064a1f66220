"""An HTTPS server for tests that answers with what a test puts into it."""

import contextlib
import http.server
import secrets
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typing_extensions import override

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


class _Listening(http.server.ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext
    answering: HttpsServer

    @override
    def get_request(self) -> Any:
        connected, address = super().get_request()
        connected.settimeout(30)
        wrapped = self.context.wrap_socket(
            connected, server_side=True, do_handshake_on_connect=False
        )
        return wrapped, address

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may go at any time."""


class _RequestHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listening

    @override
    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answering = self.server.answering
        status, extra, content = answering.answer(self.command, self.path, headers, body)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **extra}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.close_connection |= "close" in extra.get("Connection", "").lower()
        if len(content) != int(extra.get("Content-Length", len(content))):
            self.close_connection = True

    @override
    def log_message(self, *args: Any) -> None:
        """Write nothing to standard error."""


@contextlib.contextmanager
def https_server() -> Iterator[HttpsServer]:
    """Start a server for localhost. Sources trust it while ``SSL_CERT_FILE`` names its authority."""
    with tempfile.TemporaryDirectory() as folder:
        write_certificate(Path(folder) / "https", "localhost")
        listening = _Listening(("127.0.0.1", 0), _RequestHandler)
        listening.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        listening.context.load_cert_chain(Path(folder) / "https.pem", Path(folder) / "https.key")
        listening.answering = HttpsServer(listening.server_port, Path(folder) / "https.pem")
        thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield listening.answering
        finally:
            listening.shutdown()
            listening.server_close()
            thread.join()


def write_certificate(path: Path, host: str) -> None:
    """Write PATH.pem, a certificate that signs itself, and PATH.key."""
    key = ec.generate_private_key(ec.SECP256R1())
    # A client may trust several of them, which it finds by their names.
    common_name = f"{host} {secrets.token_hex(4)}"
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    now = datetime.fromtimestamp(time.time(), UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path.with_suffix(".pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    path.with_suffix(".key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
