"""A small reverse proxy over real sockets that can be misconfigured."""

import contextlib
import datetime
import http.client
import ipaddress
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the proxy, with header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of the proxy."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    def without(self, name: str) -> "Reply":
        return replace(self, headers={k: v for k, v in self.headers.items() if k != name})

    def with_header(self, name: str, value: str) -> "Reply":
        return replace(self, headers={**self.headers, name: value})


Forward: TypeAlias = Callable[[Request], Reply]
Fault: TypeAlias = Callable[[Request, Forward], Reply]
"""Answers a request; the second argument forwards it to the server."""


def page(status: int, text: str) -> Reply:
    return Reply(
        status, {"content-type": "text/html"}, f"<html><body>{text}</body></html>".encode()
    )


def redirect(status: int, to: str) -> Reply:
    return Reply(status, {"location": to})


class Proxy(ThreadingHTTPServer):
    """Forwards all requests to a local port, changed by a fault."""

    daemon_threads = True
    upstream = 0

    def __init__(self, fault: Fault, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fault = fault
        self.scheme = "http" if tls is None else "https"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def forward(self, request: Request) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        with contextlib.closing(connection):
            connection.request(request.method, request.path, request.body, request.headers)
            answer = connection.getresponse()
            kept = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, kept, answer.read())

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors, because clients disconnect in some tests."""


class _Handler(BaseHTTPRequestHandler):
    server: Proxy

    def _answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path, headers, self.rfile.read(length))
        reply = self.server.fault(request, self.server.forward)
        self.send_response_only(reply.status)
        for name, value in reply.headers.items():
            if name not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *args: Any) -> None:
        """Keep standard error for the test."""


@contextlib.contextmanager
def running(proxy: Proxy) -> Iterator[Proxy]:
    thread = threading.Thread(target=proxy.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()


def self_signed() -> bytes:
    """Return a key and a certificate for 127.0.0.1 as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ) + signed.public_bytes(serialization.Encoding.PEM)


@contextlib.contextmanager
def certificate() -> Iterator[tuple[ssl.SSLContext, ssl.SSLContext]]:
    """Yield the TLS contexts of a server with a self-signed certificate and of a client that trusts it."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "both.pem"
        file.write_bytes(self_signed())
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(file)
        yield server, ssl.create_default_context(cafile=file)
