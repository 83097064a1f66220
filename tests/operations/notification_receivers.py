"""What notifications are sent to: an HTTPS server and a mail server for localhost."""

import contextlib
import socketserver
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.utils import timezone
from typing_extensions import override

from importers.authoring.https_server import write_certificate
from operations.notifications import delivery, store
from operations.notifications.models import Notification, NotificationChannel, NotificationKind
from tests.owners import OWNER_ID

PASSWORD = "p4ss of the mail account"


def add_channel(
    transport: str = "webhook", kinds: list[str] | None = None, **address: str
) -> NotificationChannel:
    """A channel of today, to which no digest is due; without an address, one that is refused."""
    return store.create_channel(
        transport,
        address or {"url": "https://127.0.0.1:9/none"},
        kinds=NotificationKind.values if kinds is None else kinds,
        owner_id=OWNER_ID,
        now=timezone.now(),
    )


def announce(times: int = 1) -> list[str]:
    """Run the job, and return all notifications so far."""
    for _ in range(times):
        list(delivery.notifications())
    return list(Notification.unscoped.order_by("pk").values_list("text", flat=True))


@dataclass
class MailServer:
    """Accepts mail after a sign-in. ``commands`` came in the order of arrival."""

    port: int = 0
    offers_tls: bool = True
    commands: list[str] = field(default_factory=list)
    mails: list[str] = field(default_factory=list)


class _Listening(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    context: ssl.SSLContext
    state: MailServer
    is_implicit = False

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Clients may go at any time."""


class _Session(socketserver.BaseRequestHandler):
    server: _Listening

    @override
    def handle(self) -> None:
        self.encrypted = self.server.is_implicit
        if self.encrypted:
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
        self.lines = self.request.makefile("rb")
        self.answer("220 ready")
        try:
            while line := self.lines.readline():
                words = line.decode().strip()
                self.server.state.commands.append(words)
                if not self.obey(words.partition(" ")[0].upper()):
                    return
        finally:
            self.lines.close()
            self.request.close()

    def answer(self, text: str) -> None:
        self.request.sendall(f"{text}\r\n".encode())

    def obey(self, command: str) -> bool:
        state = self.server.state
        if command == "EHLO":
            offers = state.offers_tls and not self.encrypted
            self.answer("250-hello\r\n250 " + ("STARTTLS" if offers else "AUTH PLAIN LOGIN"))
        elif command == "STARTTLS":
            self.answer("220 go")
            self.request = self.server.context.wrap_socket(self.request, server_side=True)
            self.lines, self.encrypted = self.request.makefile("rb"), True
        elif command == "AUTH":
            self.answer("235 in" if self.encrypted else "538 encrypt first")
        elif command == "DATA":
            self.answer("354 go on")
            mail = b""
            while (line := self.lines.readline()) not in (b".\r\n", b""):
                mail += line
            state.mails.append(mail.decode())
            self.answer("250 taken")
        else:
            self.answer("221 bye" if command == "QUIT" else "250 fine")
        return command != "QUIT"


@contextlib.contextmanager
def mail_server(folder: Path, *, is_implicit: bool = False) -> Iterator[MailServer]:
    """Start a mail server; ``folder`` gets the certificate ``mail.pem`` that it proves itself with."""
    write_certificate(folder / "mail", "localhost")
    with _Listening(("127.0.0.1", 0), _Session) as listening:
        listening.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        listening.context.load_cert_chain(folder / "mail.pem", folder / "mail.key")
        listening.state, listening.is_implicit = (
            MailServer(listening.server_address[1]),
            is_implicit,
        )
        thread = threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield listening.state
        finally:
            listening.shutdown()
            thread.join()
