"""Send one message by mail, ntfy or webhook, to checked addresses only and over verified TLS.

Each host is resolved once, its addresses are checked (``evidence.ssrf_guard``), and the connection
goes to a checked address. Redirects are not followed, and no proxy of the environment is used.
"""

import contextlib
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.message import EmailMessage
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import orjson
from django.conf import settings
from django.utils import timezone

from evidence.events import webhook_client
from evidence.ssrf_guard import BlockedAddressError, private_addresses, public_addresses
from operations.notifications.models import NotificationChannel

Transport = NotificationChannel.Transport
SMTP_SECONDS = 10.0
SMTP_TOTAL_SECONDS = 30.0
TLS, STARTTLS, PLAIN = "tls", "starttls", "none"
NTFY_CHARS = 1_200
"""ntfy turns messages of more than 4,096 bytes into attachments."""


class Message(NamedTuple):
    """What is sent. ``details`` are the notifications for programs behind a webhook."""

    title: str
    text: str
    url: str
    details: Sequence[Mapping[str, str]] = ()


class ChannelError(Exception):
    """Nothing was sent; the text says why in our own words."""


def send(transport: str, address: Mapping[str, str], message: Message) -> None:
    """Send a message. Raises ``ChannelError``."""
    _SENDERS[transport](address, message)


def _send_ntfy(address: Mapping[str, str], message: Message) -> None:
    server, _, topic = address["url"].rpartition("/")
    text = message.text
    body = {
        "topic": topic,
        "title": message.title,
        "message": text if len(text) <= NTFY_CHARS else f"{text[:NTFY_CHARS]}…",
        "click": message.url,
    }
    token = address.get("token")
    _post(f"{server}/", address, body, {"authorization": f"Bearer {token}"} if token else {})


def _send_webhook(address: Mapping[str, str], message: Message) -> None:
    """Send JSON; Slack, Mattermost and others show ``text``."""
    text = f"{message.title}\n{message.text}\n{message.url}"
    body = {"text": text, "title": message.title, "url": message.url}
    _post(address["url"], address, {**body, "notifications": list(message.details)}, {})


def _post(
    url: str, address: Mapping[str, str], body: Mapping[str, Any], headers: Mapping[str, str]
) -> None:
    resolved = _resolve(address, url)
    response = webhook_client.post(
        url,
        headers={"content-type": "application/json", "user-agent": "PDPP", **headers},
        body=orjson.dumps(body),
        resolve=lambda _: resolved,
    )
    if response.status is None:
        raise ChannelError("The server did not answer in time, or its certificate is not valid.")
    if not 200 <= response.status < 300:
        raise ChannelError(f"The server refused the message (status {response.status}).")


def _resolve(address: Mapping[str, str], url: str) -> tuple[SplitResult, int, Sequence[str]]:
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise ChannelError("The address must begin with https://.")
    port = parts.port or 443
    return parts, port, _checked_addresses(address, parts.hostname or "", port)


def _checked_addresses(address: Mapping[str, str], host: str, port: int) -> Sequence[str]:
    allowed = private_addresses if address.get("allows_private") else public_addresses
    try:
        return allowed(host, port)
    except BlockedAddressError:
        hint = "" if address.get("allows_private") else " Only public addresses are allowed."
        raise ChannelError(f"The server's address is unknown or not allowed.{hint}") from None


class _PinnedSmtp(smtplib.SMTP):
    """Connects to a checked address; certificates are still verified for the host's name."""

    pinned = ""

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return socket.create_connection((self.pinned, port), timeout)


class _PinnedSmtpTls(smtplib.SMTP_SSL, _PinnedSmtp):
    """Wraps the socket of ``_PinnedSmtp`` before the first byte."""


def _send_mail(address: Mapping[str, str], message: Message) -> None:
    mail = _mail(address, message)
    try:
        with _smtp(address) as client:
            if user := address.get("user"):
                client.login(user, address.get("password", ""))
            client.send_message(mail)
    except smtplib.SMTPAuthenticationError:
        raise ChannelError("The mail server refused the user name or the password.") from None
    except smtplib.SMTPNotSupportedError:
        raise ChannelError("The mail server offers no encryption or no sign-in.") from None
    except smtplib.SMTPResponseException as error:
        raise ChannelError(f"The mail server refused the mail (code {error.smtp_code}).") from None
    except smtplib.SMTPRecipientsRefused:
        raise ChannelError("The mail server refused the recipient.") from None
    except ssl.SSLError:
        raise ChannelError("The mail server's certificate is not valid for its name.") from None
    except (smtplib.SMTPException, OSError):
        raise ChannelError("The mail server did not answer in time.") from None


def _mail(address: Mapping[str, str], message: Message) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"] = address["sender"], address["recipient"]
    mail["Subject"], mail["Date"] = message.title, timezone.now()
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(f"{message.text}\n\n{message.url}\n")
    return mail


@contextlib.contextmanager
def _smtp(address: Mapping[str, str]) -> Iterator[smtplib.SMTP]:
    """Connect to the first address that answers, encrypted unless the owner chose otherwise."""
    host, port, security = address["host"], int(address["port"]), address["security"]
    addresses = _checked_addresses(address, host, port)
    client = _connect(addresses, host, port, security)
    # A server that sends a byte now and then never runs into the timeout of a read.
    deadline = threading.Timer(SMTP_TOTAL_SECONDS, _shut_down, [client])
    deadline.start()
    try:
        if security == STARTTLS:
            client.starttls(context=webhook_client.ssl_context())
        yield client
    finally:
        deadline.cancel()
        with contextlib.suppress(smtplib.SMTPException, OSError):
            client.quit()
        client.close()


def _connect(addresses: Sequence[str], host: str, port: int, security: str) -> smtplib.SMTP:
    failure: OSError = OSError()
    for pinned in addresses:
        context = {"context": webhook_client.ssl_context()} if security == TLS else {}
        kind: Callable[..., _PinnedSmtp] = _PinnedSmtpTls if security == TLS else _PinnedSmtp
        client = kind(local_hostname=_own_name(), timeout=SMTP_SECONDS, **context)
        client.pinned, client._host = pinned, host  # type: ignore[attr-defined] # noqa: SLF001
        try:
            client.connect(host, port)
        except (OSError, smtplib.SMTPConnectError) as error:
            failure = error
        else:
            return client
    raise failure


def _shut_down(client: smtplib.SMTP) -> None:
    with contextlib.suppress(OSError):
        if client.sock is not None:
            client.sock.shutdown(socket.SHUT_RDWR)


def _own_name() -> str:
    """Return the name for the greeting: the public one, and not that of the machine."""
    return urlsplit(settings.PDPP_PUBLIC_URL).hostname or "localhost"


_SENDERS: Mapping[str, Callable[[Mapping[str, str], Message], None]] = {
    Transport.MAIL: _send_mail,
    Transport.NTFY: _send_ntfy,
    Transport.WEBHOOK: _send_webhook,
}
