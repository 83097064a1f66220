"""Subscription states: which events each may send, how a delivery changes them, and how one ends.

A receiver's response decides whether to retry, succeed or give up. The capability document advertises
the same limits.
"""

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, TypeAlias

import orjson
from django.db import transaction

from evidence import limits
from evidence.access.crypto import new_id
from evidence.events.webhook_client import WebhookResponse
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
    event.due_at = until
    event.save(update_fields=["due_at"])


def end_subscription(subscription: Subscription, *, reason: str, now: datetime) -> None:
    """Revoke a subscription, drop its events, and tell the receiver if it was active."""
    was_active = subscription.status == Status.ACTIVE
    queued = Event.unscoped.filter(subscription=subscription, status=Event.Status.QUEUED)
    queued.update(status=Event.Status.DROPPED, settled_at=now)
    WatchedStream.unscoped.filter(subscription=subscription).delete()
    set_status(subscription, Status.REVOKED, reason=reason, now=now)
    if was_active:
        queue_event(subscription.pk, Event.Type.REVOKED, now=now)


def queue_event(
    subscription_id: str, event_type: Event.Type, *, now: datetime, **columns: Any
) -> Event:
    """Queue an event that is due at once."""
    return Event.unscoped.create(
        event_id=new_id("evt_"),
        subscription_id=subscription_id,
        type=event_type,
        created_at=now,
        due_at=now,
        **columns,
    )


GONE_STATUS = 410
BUSY_STATUSES = frozenset({429, 502, 504})
Jitter: TypeAlias = Callable[[float, float], float]
"""Returns a number between two others, as `random.uniform` does."""


class Outcome(Enum):
    """A final outcome of an event."""

    DELIVERED = "delivered"
    GONE = "gone"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True)
class Retry:
    """Another attempt at a time. `counts` is False if the receiver only asked to wait."""

    at: datetime
    counts: bool


Decision: TypeAlias = Outcome | Retry


def decide_outcome(
    response: WebhookResponse,
    *,
    challenge: str,
    attempts: int,
    created_at: datetime,
    now: datetime,
    jitter: Jitter,
) -> Decision:
    """Decide what follows from a response.

    `attempts` counts the failed attempts before this one. `challenge` is empty if the receiver has
    nothing to echo.
    """
    status = response.status
    if status is not None and 200 <= status < 300 and has_challenge_echo(response.body, challenge):
        return Outcome.DELIVERED
    if status == GONE_STATUS:
        return Outcome.GONE
    if status in BUSY_STATUSES:
        if now - created_at >= timedelta(seconds=limits.EVENT_DEFERRED_MOST):
            return Outcome.GIVEN_UP
        return Retry(now + _retry_delay(response.retry_after, now), counts=False)
    if attempts >= len(limits.EVENT_RETRIES):
        return Outcome.GIVEN_UP
    factor = jitter(1 - limits.EVENT_JITTER, 1 + limits.EVENT_JITTER)
    return Retry(now + timedelta(seconds=limits.EVENT_RETRIES[attempts] * factor), counts=True)


def has_challenge_echo(content: bytes, challenge: str) -> bool:
    """Return whether the receiver echoed the challenge as `{"challenge": …}`."""
    if not challenge:
        return True
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return False
    echo = body.get("challenge") if isinstance(body, dict) else None
    return isinstance(echo, str) and hmac.compare_digest(echo.encode(), challenge.encode())


def _retry_delay(retry_after: str | None, now: datetime) -> timedelta:
    """Parse Retry-After, in seconds or as an HTTP date, and clamp it to the advertised range."""
    seconds = float(limits.EVENT_RETRY_AFTER)
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    elif text:
        seconds = _seconds_until(text, now) or seconds
    return timedelta(seconds=min(max(seconds, 1.0), float(limits.EVENT_RETRY_AFTER_MOST)))


def _seconds_until(http_date: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(http_date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 1.0)


DISABLED_REASONS = {
    Outcome.GONE: "receiver_gone",
    Outcome.GIVEN_UP: "delivery_failed",
}


@transaction.atomic
def store_outcome(
    event_id: str, response: WebhookResponse, *, attempts: int, now: datetime, jitter: Jitter
) -> str:
    """Store the result of an attempt, and return the status of the event.

    An event that was settled during the attempt keeps its status. Of two concurrent attempts, the
    first one stored counts.
    """
    locked = lock_event(event_id)
    if locked is None:
        return "deleted"
    event, subscription = locked
    if event.status != Event.Status.QUEUED or event.attempts != attempts:
        return event.status
    event.answered = response.status
    decision = decide_outcome(
        response,
        challenge=event.challenge,
        attempts=attempts,
        created_at=event.created_at,
        now=now,
        jitter=jitter,
    )
    _apply(decision, event, subscription, now=now)
    event.save()
    return event.status


def _apply(decision: Decision, event: Event, subscription: Subscription, *, now: datetime) -> None:
    if isinstance(decision, Retry):
        event.due_at = decision.at
        event.attempts += decision.counts
    elif decision is Outcome.DELIVERED:
        event.status, event.settled_at = Event.Status.DELIVERED, now
        if event.type == Event.Type.VERIFY and subscription.status == Status.PENDING:
            set_status(subscription, Status.ACTIVE, reason=None, now=now)
    else:
        # A change event stays queued until the subscription is enabled again; others have failed.
        if event.type != Event.Type.CHANGED:
            event.status, event.settled_at = Event.Status.FAILED, now
        if subscription.status in SENDING_STATES:
            is_verification = event.type == Event.Type.VERIFY
            reason = DISABLED_REASONS[decision]
            if decision is Outcome.GIVEN_UP and is_verification:
                reason = "verification_failed"
            set_status(subscription, Status.FAILED, reason=reason, now=now)
