"""Find what the owner should be told, queue it, and send it: at once, then at most every five minutes.

No sentence contains a name that the owner gave, text of a record, or text of another server. Names of
apps are chosen by strangers, and so lose whatever a reader of messages would turn into a link.

A channel sends all that waits as one message. After a failure it waits longer each time, and the home
page shows it. A message is sent again, with the same ids, only if the process dies after the server
has accepted it and before that is stored.

Channels are mail, ntfy and webhook, at checked addresses only and over verified TLS. Each host is resolved
once, its addresses are checked (``evidence.ssrf_guard``), and the connection goes to a checked address.
Redirects are not followed, and no proxy of the environment is used.
"""

import contextlib
import logging
import smtplib
import socket
import ssl
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from email.message import EmailMessage
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import orjson
from django.conf import settings
from django.utils import timezone

from evidence.access.grant_lifecycle import open_requests
from evidence.access.grant_text import format_day, join_words
from evidence.access.owner_notices import (
    client_names,
    ending_grants,
    grants_by_source,
    new_access,
    open_alerts,
)
from evidence.access.sql import select_owners
from evidence.events import webhook_client
from evidence.ledger.checkpoints import last_note
from evidence.ledger.disclosures import ReadTotals, read_totals
from evidence.models.owners import current_owner, in_turn
from evidence.ssrf_guard import BlockedAddressError, private_addresses, public_addresses
from evidence.write.sealed_values import SealedError
from importers.runs.store import stopped_runs
from importers.sources import status
from importers.sources.account_store import list_accounts
from operations.backup import schedule
from operations.notifications import store
from operations.notifications.models import Notification, NotificationChannel
from operations.notifications.models import NotificationKind as Kind
from operations.notifications.store import is_announced

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


MAX_AGE = timedelta(days=2)
"""What happened earlier is not announced any more; the pages still show it."""
ENDING_SOON = timedelta(days=3)
MAX_NAME_CHARS = 40
MAX_SOURCES = 5
HOME, APPS = "/", "/connected"


class Notice(NamedTuple):
    """The arguments of ``notify``."""

    kind: Kind
    key: str
    text: str
    path: str


def quote_name(name: str) -> str:
    """Return an app's name in quotes, with letters, digits, spaces and hyphens only."""
    return f"“{plain_name(name)}”"


def plain_name(name: str) -> str:
    """Return a name without what a reader could turn into a link or markup, in 40 characters."""
    kept = (char if _is_plain(char) else " " for char in name[: 4 * MAX_NAME_CHARS])
    words = " ".join("".join(kept).split())
    return words if len(words) <= MAX_NAME_CHARS else f"{words[:MAX_NAME_CHARS].rstrip()}…"


def _is_plain(char: str) -> bool:
    return char == "-" or unicodedata.category(char)[0] in "LMN"


def current_notices(owner_id: str, *, now: datetime) -> Iterator[Notice]:
    """Yield everything to announce, whether it was announced before or not. About ten queries."""
    yield from _apps(owner_id, now)
    yield from _grants(owner_id, now)
    for run in stopped_runs(owner_id, since=now - MAX_AGE):
        text = "An import stopped before its end."
        yield Notice(Kind.FAILED_IMPORT, run.run_id, text, "/imports")
    if (problem := schedule.get_plan(owner_id).problem) is not None:
        # Once a day for each kind of failure, although the backup is tried every hour.
        key = f"{problem['code']} {problem['at'][:10]}"
        text = "A backup failed. The page Backups says why."
        yield Notice(Kind.FAILED_BACKUP, key, text, "/backups")
    for account in list_accounts(owner_id):
        notice = status.notice(account, now=now)
        if notice is not None and notice.key:
            source = plain_name(account.connection.source.display_name)
            text = f"A live account of {source} does not sync. {notice.summary}".strip()
            key, path = f"{account.pk} {notice.key}", f"/accounts/{account.pk}"
            yield Notice(Kind.STOPPED_ACCOUNT, key, text, path)


def _apps(owner_id: str, now: datetime) -> Iterator[Notice]:
    for access in new_access(owner_id, since=now - MAX_AGE):
        text = f"{quote_name(access.client)} may now read {_join_sources(access.sources)}."
        yield Notice(Kind.NEW_APP, access.package_id, text, APPS)
    for alert in open_alerts(owner_id):
        if alert.at >= now - MAX_AGE:
            read = alert.reading
            text = (
                f"{quote_name(alert.client)} was paused automatically: it read {read.seen:,} of"
                f" {read.total:,} records of {plain_name(alert.source)} within {read.hours} hours."
                " It reads nothing until you resume it."
            )
            yield Notice(Kind.TRIPWIRE, str(alert.alert_id), text, APPS)


def _join_sources(sources: tuple[str, ...]) -> str:
    names = [plain_name(each) for each in sources[:MAX_SOURCES]]
    more = len(sources) - len(names)
    return join_words([*names, f"{more} more"] if more else names)


def _grants(owner_id: str, now: datetime) -> Iterator[Notice]:
    for request in open_requests(owner_id, now=now):
        app, source = request.grant.package.client.display_name, request.grant.source.display_name
        text = (
            f"{quote_name(app)} asks to read more of {plain_name(source)}. It reads nothing more"
            f" until you answer, by {request.expires_at:%H:%M} UTC."
        )
        yield Notice(Kind.PERMISSION_REQUEST, request.pk, text, HOME)
    for grant in ending_grants(owner_id, within=ENDING_SOON, now=now, only_longer=True):
        app, source = grant.package.client.display_name, grant.source.display_name
        if grant.expires_at is not None:
            day = format_day(grant.expires_at)
            text = f"Access of {quote_name(app)} to {plain_name(source)} ends on {day}."
            yield Notice(Kind.GRANT_ENDING, grant.pk, text, APPS)


MAX_APPS = 15
SIGNATURE = "\nSignature of the ledger, for manage ledger verify --against:\n"
ACTIVITY = "/activity"


def monthly_digest(owner_id: str, *, since: datetime, now: datetime) -> Iterator[Notice]:
    """Yield the digest of the month before (UTC) once, unless that ended before ``since``."""
    end, start = _months(now)
    key = _digest_key(start)
    if since >= end or is_announced(Kind.DIGEST, key, owner_id=owner_id):
        return
    grants = grants_by_source(owner_id)
    text = _text(grants, start, end, names=client_names(owner_id))
    if note := last_note(owner_id):
        # The message is a copy of the signature outside of the database, so it is never cut.
        room = store.MAX_TEXT_CHARS - len(note) - len(SIGNATURE)
        text = f"{text[:room]}{SIGNATURE}{note}"
    yield Notice(Kind.DIGEST, key, text, ACTIVITY)


def _months(now: datetime) -> tuple[datetime, datetime]:
    """Return the start of this month and of the one before, in UTC."""
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return month, (month - timedelta(days=1)).replace(day=1)


def _digest_key(month: datetime) -> str:
    return f"{month:%Y-%m}"


def _text(
    grants: dict[str, list[str]], start: datetime, end: datetime, *, names: dict[str, str]
) -> str:
    """Return one line per app. One query per source."""
    read: dict[str, list[str]] = {}
    for source, grant_ids in grants.items():
        for client_id, totals in read_totals(grant_ids, since=start, until=end).items():
            read.setdefault(client_id, []).append(_describe(source, totals))
    if not read:
        return f"In {start:%B %Y}, no app read anything."
    lines = [
        f"{quote_name(names[client_id])} read {join_words(parts)}."
        for client_id, parts in sorted(read.items(), key=lambda it: names[it[0]].casefold())
    ]
    if len(lines) > MAX_APPS:
        lines[MAX_APPS:] = [f"{len(lines) - MAX_APPS} more apps read something."]
    return "\n".join([f"What apps read in {start:%B %Y}:", *lines])


def _describe(source: str, totals: ReadTotals) -> str:
    records = "1 record" if totals.records == 1 else f"{totals.records:,} records"
    answers = "1 answer" if totals.answers == 1 else f"{totals.answers:,} answers"
    return f"{records} of {plain_name(source)} in {answers}"


logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 20.0
REST = timedelta(minutes=5)
"""Minimum time between two messages of a channel."""
RETRIES = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 360, 720))
RESERVATION = timedelta(minutes=2)
MAX_LINES = 20
UNREADABLE = "Its address was encrypted with another key. Remove the channel and add it again."
TEST = Message("PDPP: test", "Notifications arrive here.", "/notifications")


FIND_OWNERS = """
-- Owners with a channel for whom something may be new, or waits to be sent. One query across owners.
SELECT c.owner_id FROM notifications_notificationchannel AS c
WHERE EXISTS (SELECT FROM notifications_queuednotification AS x WHERE x.owner_id = c.owner_id)
    OR EXISTS (SELECT FROM evidence_package AS x
        WHERE x.owner_id = c.owner_id AND x.created_at >= %(since)s)
    OR EXISTS (SELECT FROM evidence_alert AS x
        WHERE x.owner_id = c.owner_id AND x.at >= %(since)s AND x.acknowledged_at IS NULL)
    OR EXISTS (SELECT FROM evidence_permissionrequest AS x
        WHERE x.owner_id = c.owner_id AND x.answered_at IS NULL AND x.expires_at > %(now)s)
    OR EXISTS (SELECT FROM evidence_grant AS x
        WHERE x.owner_id = c.owner_id AND x.expires_at BETWEEN %(now)s AND %(soon)s)
    OR EXISTS (SELECT FROM importers_importrun AS x
        WHERE x.owner_id = c.owner_id AND x.started_at >= %(since)s AND x.status = 'stopped')
    OR EXISTS (SELECT FROM backup_backupplan AS x
        WHERE x.owner_id = c.owner_id AND x.problem IS NOT NULL)
    OR EXISTS (SELECT FROM importers_sourceaccount AS x
        WHERE x.owner_id = c.owner_id AND (x.problem IS NOT NULL OR x.held_deletions IS NOT NULL
            OR x.credential IS NULL OR coalesce(x.succeeded_at, x.created_at) < %(stale)s))
    OR (c.created_at < %(month)s AND NOT EXISTS (SELECT FROM notifications_notification AS x
        WHERE x.owner_id = c.owner_id AND x.kind = 'digest' AND x.key = %(digest)s))
GROUP BY c.owner_id
"""


def notifications() -> Iterator[None]:
    """Queue new notifications, and send what is due."""
    yield from in_turn(lambda: _owners_to_notify(timezone.now()), _notify_owner)


def _owners_to_notify(now: datetime) -> list[str]:
    month, previous = _months(now)
    values = {
        "since": now - MAX_AGE,
        "soon": now + ENDING_SOON,
        "now": now,
        "stale": now - status.STALE_AFTER,
        "month": month,
        "digest": _digest_key(previous),
    }
    return select_owners(FIND_OWNERS, values)


def _notify_owner() -> Iterator[None]:
    now = timezone.now()
    owner_id = current_owner()
    channels = store.list_channels(owner_id)
    if not channels:
        return
    digest = monthly_digest(owner_id, since=channels[0].created_at, now=now)
    for notice in chain(current_notices(owner_id, now=now), digest):
        store.notify(notice.kind, key=notice.key, text=notice.text, path=notice.path, now=now)
    yield
    for channel_id in store.claim_channels(owner_id, now=now, until=now + RESERVATION):
        channel = store.find_channel(channel_id, owner_id=owner_id)
        if channel is not None:
            _send_queued(channel, now=now)
        yield


def _send_queued(channel: NotificationChannel, *, now: datetime) -> None:
    queued = store.queued_notifications(channel.pk)
    if queued and deliver(channel, _message(queued), now=now):
        store.mark_sent(channel.pk, queued, next_at=now + REST, now=now)


def send_test(channel: NotificationChannel, *, now: datetime) -> bool:
    """Send a test message at once, and return whether the channel works."""
    is_sent = deliver(channel, TEST._replace(url=_url(TEST.url)), now=now)
    if is_sent:
        store.mark_sent(channel.pk, (), next_at=now, now=now)
    return is_sent


def deliver(channel: NotificationChannel, message: Message, *, now: datetime) -> bool:
    """Send a message, and store why if that fails."""
    try:
        send(channel.transport, store.open_address(channel), message)
    except (ChannelError, SealedError) as error:
        problem = UNREADABLE if isinstance(error, SealedError) else str(error)
        wait = RETRIES[min(channel.failures, len(RETRIES) - 1)]
        store.mark_failed(channel, problem, next_at=now + wait, now=now)
        logger.warning("a notification by %s failed; retrying", channel.transport)
        return False
    return True


def _message(queued: Sequence[Notification]) -> Message:
    """Return one message for all that waits, which leads to the page of a single one."""
    lines = [each.text for each in queued[:MAX_LINES]]
    if more := len(queued) - len(lines):
        lines.append(f"{more} more on your home page.")
    title = queued[0].get_kind_display() if len(queued) == 1 else f"{len(queued)} notifications"
    details = [
        {
            "id": str(each.pk),
            "kind": each.kind,
            "text": each.text,
            "url": _url(each.path),
            "at": each.created_at.isoformat(timespec="seconds"),
        }
        for each in queued[:MAX_LINES]
    ]
    path = queued[0].path if len(queued) == 1 else "/"
    return Message(f"PDPP: {title}", "\n".join(lines), _url(path), details)


def _url(path: str) -> str:
    return f"{settings.PDPP_PUBLIC_URL}{path}"
