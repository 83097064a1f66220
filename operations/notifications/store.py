"""Store notifications and their channels, whose addresses are encrypted."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from typing_extensions import override

from evidence.access import crypto
from evidence.models.owners import current_owner
from evidence.write.app_data import AppData
from evidence.write.sealed_values import reencrypt_rows, seal_texts, unseal_texts
from operations.notifications.models import (
    Notification,
    NotificationChannel,
    NotificationKind,
    QueuedNotification,
)

PURPOSE = "notification channel"
MAX_CHANNELS = 10
MAX_TEXT_CHARS = 2_000
MAX_QUEUE_AGE = timedelta(days=7)
"""A notification that a channel could not send for so long is given up there."""
RETENTION = timedelta(days=400)
"""Older notifications are deleted, after which the same occasion could be announced again."""


def create_channel(
    transport: str,
    address: Mapping[str, str],
    *,
    kinds: Collection[str],
    owner_id: str,
    now: datetime,
) -> NotificationChannel:
    """Create a channel, which carries what happens from now on."""
    channel_id = crypto.new_id("ntc_")
    return NotificationChannel.unscoped.create(
        channel_id=channel_id,
        owner_id=owner_id,
        transport=transport,
        address=seal_texts(address, purpose=PURPOSE, row_id=channel_id),
        kinds=sorted(kinds),
        created_at=now,
        next_at=now,
    )


def list_channels(owner_id: str) -> Sequence[NotificationChannel]:
    rows = NotificationChannel.unscoped.filter(owner_id=owner_id)
    return list(rows.order_by("created_at", "channel_id"))


def find_channel(channel_id: str, *, owner_id: str) -> NotificationChannel | None:
    return NotificationChannel.unscoped.filter(pk=channel_id, owner_id=owner_id).first()


def set_kinds(channel: NotificationChannel, kinds: Collection[str]) -> None:
    """Choose what a channel carries. What waits there of other kinds is not sent any more."""
    rows = NotificationChannel.unscoped.filter(pk=channel.pk)
    rows.update(kinds=sorted(kinds))
    queued = QueuedNotification.unscoped.filter(channel=channel)
    queued.exclude(notification__kind__in=kinds).delete()


def delete_channel(channel: NotificationChannel) -> None:
    NotificationChannel.unscoped.filter(pk=channel.pk).delete()


def open_address(channel: NotificationChannel) -> dict[str, str]:
    """Decrypt the address. Raises ``SealedError``."""
    return unseal_texts(channel.address, purpose=PURPOSE, row_id=channel.pk)


def reencrypt() -> int:
    """Encrypt all addresses with the current key, and return the number of changed ones."""
    return reencrypt_rows(NotificationChannel.unscoped.all(), "address", purpose=PURPOSE)


def notify(kind: NotificationKind, *, key: str, text: str, path: str, now: datetime) -> bool:
    """Queue a notification, and return False if its occasion was announced before.

    ``key`` names the occasion among those of its kind, such as the time of a failed backup.
    ``text`` is a sentence that anybody may read: no name that the owner gave, nothing from a record
    and no text of another server; names of apps go through ``notices.quote_name``. ``path`` is a page
    of the owner, such as ``/notifications``. Survives a restart; sent within half a minute.
    """
    return add_notification(kind, key=key, text=text, path=path, owner_id=current_owner(), now=now)


@transaction.atomic
def add_notification(
    kind: NotificationKind, *, key: str, text: str, path: str, owner_id: str, now: datetime
) -> bool:
    """Queue a notification on every channel of its kind. Returns False if the occasion is known.

    One query for a known occasion.
    """
    if is_announced(kind, key, owner_id=owner_id):
        return False
    occasion = {"owner_id": owner_id, "kind": kind.value, "key": key}
    row, is_new = Notification.unscoped.get_or_create(
        **occasion, defaults={"text": text[:MAX_TEXT_CHARS], "path": path, "created_at": now}
    )
    if is_new:
        channels = NotificationChannel.unscoped.filter(owner_id=owner_id, kinds__contains=[kind])
        QueuedNotification.unscoped.bulk_create(
            QueuedNotification(channel_id=channel_id, notification=row)
            for channel_id in channels.values_list("pk", flat=True)
        )
    return is_new


def is_announced(kind: NotificationKind, key: str, *, owner_id: str) -> bool:
    """Return whether an occasion is known. One query."""
    rows = Notification.unscoped.filter(owner_id=owner_id, kind=kind.value, key=key)
    return rows.exists()


def claim_channels(owner_id: str, *, now: datetime, until: datetime) -> Sequence[str]:
    """Return the channels with something to send now, and reserve them ``until`` then.

    A channel whose process dies while it sends is due again at that time.
    """
    waiting = QueuedNotification.unscoped.values("channel_id")
    rows = NotificationChannel.unscoped.filter(owner_id=owner_id, next_at__lte=now, pk__in=waiting)
    return [
        channel_id
        for channel_id in rows.order_by("pk").values_list("pk", flat=True)
        if rows.filter(pk=channel_id).update(next_at=until)
    ]


def queued_notifications(channel_id: str) -> Sequence[Notification]:
    """Return what a channel has not sent yet, oldest first."""
    queued = QueuedNotification.unscoped.filter(channel_id=channel_id)
    rows = Notification.unscoped.filter(pk__in=queued.values("notification_id"))
    return list(rows.order_by("created_at", "pk"))


@transaction.atomic
def mark_sent(
    channel_id: str, notifications: Sequence[Notification], *, next_at: datetime, now: datetime
) -> None:
    """Remove notifications from the queue of a channel, which works again."""
    QueuedNotification.unscoped.filter(
        channel_id=channel_id, notification_id__in=[each.pk for each in notifications]
    ).delete()
    NotificationChannel.unscoped.filter(pk=channel_id).update(
        sent_at=now, next_at=next_at, failures=0, failing_since=None, problem=""
    )


def mark_failed(
    channel: NotificationChannel, problem: str, *, next_at: datetime, now: datetime
) -> None:
    """Store why a channel could not send, and when to try again."""
    NotificationChannel.unscoped.filter(pk=channel.pk).update(
        next_at=next_at,
        failures=channel.failures + 1,
        failing_since=channel.failing_since or now,
        problem=problem,
    )


class NotificationData(AppData):
    """Channels and notifications, which belong to no connection."""

    @override
    def delete_owner(self, owner_id: str) -> Counter[str]:
        Notification.unscoped.filter(owner_id=owner_id).delete()
        channels, _ = NotificationChannel.unscoped.filter(owner_id=owner_id).delete()
        return Counter({"notification channels": channels})


def delete_old_notifications(now: datetime) -> int:
    """Give up what waits too long, and delete old notifications. Returns the number of rows."""
    given_up, _ = QueuedNotification.unscoped.filter(
        notification__created_at__lt=now - MAX_QUEUE_AGE
    ).delete()
    old, _ = Notification.unscoped.filter(created_at__lt=now - RETENTION).delete()
    return given_up + old
