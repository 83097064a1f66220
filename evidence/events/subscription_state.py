"""Which states of a subscription let which events out, and how it comes to its end."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db.models import QuerySet

from evidence.access.crypto import new_id
from evidence.models.events import Event, Subscription, WatchedStream

Status = Subscription.Status
LIVE = (Status.PENDING, Status.ACTIVE)

SENT_WHILE: Mapping[str, Sequence[str]] = {
    Status.PENDING: [Event.Type.VERIFY],
    Status.ACTIVE: [Event.Type.TEST, Event.Type.CHANGED],
    Status.REVOKED: [Event.Type.REVOKED],
}
"""While a receiver has not proved itself only the question goes out; the rest waits."""


def held(event_id: str) -> tuple[Event, Subscription] | None:
    """An event and its subscription, both locked, the subscription before its events as everywhere;
    None where they are not there any more. Inside a transaction."""
    rows = Subscription.unscoped.select_for_update()
    subscription = rows.filter(pk__in=_subscription_of(event_id)).first()
    event = Event.unscoped.select_for_update().filter(event_id=event_id).first()
    return (event, subscription) if event is not None and subscription is not None else None


def become(subscription: Subscription, status: str, *, reason: str | None, now: datetime) -> None:
    subscription.status, subscription.disabled_reason = status, reason
    subscription.updated_at = now
    subscription.save(update_fields=["status", "disabled_reason", "updated_at"])


def put_back(event: Event, *, until: datetime) -> None:
    """It waits for another attempt, and the last one was none."""
    event.enqueued, event.due_at = False, until
    event.save(update_fields=["enqueued", "due_at"])


def _subscription_of(event_id: str) -> QuerySet[Event, str]:
    rows = Event.unscoped.filter(event_id=event_id)
    return rows.values_list("subscription_id", flat=True)


def end(subscription: Subscription, *, reason: str, now: datetime) -> None:
    """Nothing of it is sent any more but, where it had been active, that it has ended."""
    was_active = subscription.status == Status.ACTIVE
    waiting = Event.unscoped.filter(subscription=subscription, status=Event.Status.QUEUED)
    waiting.update(status=Event.Status.DROPPED, settled_at=now)
    WatchedStream.unscoped.filter(subscription=subscription).delete()
    become(subscription, Status.REVOKED, reason=reason, now=now)
    if was_active:
        Event.unscoped.create(
            event_id=new_id("evt_"),
            subscription=subscription,
            type=Event.Type.REVOKED,
            created_at=now,
            due_at=now,
        )
