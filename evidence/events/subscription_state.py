"""Subscription states: which events each may send, and how a subscription ends."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from evidence.access.crypto import new_id
from evidence.models.events import Event, Subscription, WatchedStream

Status = Subscription.Status
SENDING_STATES = (Status.PENDING, Status.ACTIVE)

EVENT_TYPES_BY_STATUS: Mapping[str, Sequence[str]] = {
    Status.PENDING: [Event.Type.VERIFY],
    Status.ACTIVE: [Event.Type.TEST, Event.Type.CHANGED],
    Status.REVOKED: [Event.Type.REVOKED],
}
"""The events that each status sends. Other events wait."""


def lock_event(event_id: str) -> tuple[Event, Subscription] | None:
    """Lock an event and its subscription, or return None if either was deleted.

    Call it in a transaction. The subscription is always locked before its events.
    """
    subscription_ids = Event.unscoped.filter(event_id=event_id).values_list(
        "subscription_id", flat=True
    )
    subscriptions = Subscription.unscoped.select_for_update()
    subscription = subscriptions.filter(pk__in=subscription_ids).first()
    event = Event.unscoped.select_for_update().filter(event_id=event_id).first()
    return (event, subscription) if event is not None and subscription is not None else None


def set_status(
    subscription: Subscription, status: str, *, reason: str | None, now: datetime
) -> None:
    """Store a status and the reason for it."""
    subscription.status, subscription.disabled_reason = status, reason
    subscription.updated_at = now
    subscription.save(update_fields=["status", "disabled_reason", "updated_at"])


def requeue(event: Event, *, until: datetime) -> None:
    """Let the event wait until a time without counting an attempt."""
    event.enqueued, event.due_at = False, until
    event.save(update_fields=["enqueued", "due_at"])


def end_subscription(subscription: Subscription, *, reason: str, now: datetime) -> None:
    """Revoke a subscription, drop its events, and tell the receiver if it was active."""
    was_active = subscription.status == Status.ACTIVE
    queued = Event.unscoped.filter(subscription=subscription, status=Event.Status.QUEUED)
    queued.update(status=Event.Status.DROPPED, settled_at=now)
    WatchedStream.unscoped.filter(subscription=subscription).delete()
    set_status(subscription, Status.REVOKED, reason=reason, now=now)
    if was_active:
        Event.unscoped.create(
            event_id=new_id("evt_"),
            subscription=subscription,
            type=Event.Type.REVOKED,
            created_at=now,
            due_at=now,
        )
