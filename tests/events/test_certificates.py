"""Connections use an address, but certificates must match the host name."""

import datetime as dt
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from evidence.events import webhook_client
from evidence.events.webhook_client import WebhookResponse, post


def certificate(name: str, folder: Path) -> Path:
    """Return a file with a key and a self-signed certificate for a name."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    path = folder / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + signed.public_bytes(encoding)
    )
    return path


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.server.hosts.append(self.headers["host"])  # type: ignore[attr-defined] # ours
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Quiet(HTTPServer):
    def handle_error(self, *_: object) -> None:
        """Ignore failed handshakes, which the tests provoke."""


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Quiet]:
    """A local HTTPS server with a trusted certificate for receiver.example; any name resolves to it."""
    pem = certificate("receiver.example", tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = Quiet(("127.0.0.1", 0), Handler)
    server.hosts = []  # type: ignore[attr-defined] # what has arrived
    server.socket = context.wrap_socket(server.socket, server_side=True)
    trusted = ssl.create_default_context(cafile=str(pem))
    port = server.server_address[1]
    monkeypatch.setattr(webhook_client, "ssl_context", lambda: trusted)
    monkeypatch.setattr(
        webhook_client, "resolve_callback", lambda url: (urlsplit(url), port, ["127.0.0.1"])
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_certificate_of_the_host_name_is_accepted(listening: Quiet) -> None:
    assert post("https://receiver.example/hook", headers={}, body=b"{}").status == 204
    assert listening.hosts == ["receiver.example"]  # type: ignore[attr-defined] # as above


def test_certificate_of_another_name_is_refused(listening: Quiet) -> None:
    assert post("https://elsewhere.example/hook", headers={}, body=b"{}") == WebhookResponse(None)
    assert listening.hosts == []  # type: ignore[attr-defined] # as above


def test_untrusted_certificate_is_refused(
    listening: Quiet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_client, "ssl_context", ssl.create_default_context)

    assert post("https://receiver.example/hook", headers={}, body=b"{}") == WebhookResponse(None)
    assert listening.hosts == []  # type: ignore[attr-defined] # as above
