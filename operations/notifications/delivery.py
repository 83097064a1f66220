"""Queue what the owner should be told, and send it: at once, then at most every five minutes.

A channel sends all that waits as one message. After a failure it waits longer each time, and the home
page shows it. A message is sent again, with the same ids, only if the process dies after the server
has accepted it and before that is stored.
"""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain

from django.conf import settings
from django.utils import timezone

from evidence.models.accounts import get_or_create_owner
from evidence.models.notifications import Notification, NotificationChannel
from evidence.storing import notifications as store
from evidence.storing.source_accounts import SealedError
from operations.notifications import notify
from operations.notifications.notices import current_notices, monthly_digest
from operations.notifications.transports import ChannelError, Message, send

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 20.0
REST = timedelta(minutes=5)
"""Minimum time between two messages of a channel."""
RETRIES = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 360, 720))
RESERVATION = timedelta(minutes=2)
MAX_LINES = 20
UNREADABLE = "Its address was encrypted with another key. Remove the channel and add it again."
TEST = Message("PDPP: test", "Notifications arrive here.", "/notifications")


def notifications() -> Iterator[None]:
    """Queue new notifications, and send what is due. The function's name is a label in metrics."""
    now = timezone.now()
    owner_id = get_or_create_owner(now).pk
    channels = store.list_channels(owner_id)
    if not channels:
        return
    digest = monthly_digest(owner_id, since=channels[0].created_at, now=now)
    for notice in chain(current_notices(owner_id, now=now), digest):
        notify(notice.kind, key=notice.key, text=notice.text, path=notice.path, now=now)
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
