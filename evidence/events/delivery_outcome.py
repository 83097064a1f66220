"""What follows from a receiver's answer. Pure; the capability document advertises the very same."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import TypeAlias

import orjson
from django.db import transaction

from evidence import limits
from evidence.events.subscription_state import LIVE, Status, become, held
from evidence.events.webhook_client import Answered
from evidence.models.events import Event, Subscription

GONE = 410
BUSY = frozenset({429, 502, 504})
Jitter: TypeAlias = Callable[[float, float], float]
"""A number between two others, as ``random.uniform`` gives."""


class End(Enum):
    DELIVERED = "delivered"
    GONE = "the receiver says that it is gone"
    GIVEN_UP = "every attempt has failed"


@dataclass(frozen=True, slots=True)
class Again:
    """Another attempt at that time; ``counts`` unless the receiver only asked for patience."""

    at: datetime
    counts: bool


Verdict: TypeAlias = End | Again


def verdict(
    answered: Answered,
    *,
    challenge: str,
    attempts: int,
    created_at: datetime,
    now: datetime,
    jitter: Jitter,
) -> Verdict:
    """``attempts`` are those that had failed before this one; ``challenge`` is empty where nothing
    has to be echoed."""
    status = answered.status
    if status is not None and 200 <= status < 300 and echoes(answered.body, challenge):
        return End.DELIVERED
    if status == GONE:
        return End.GONE
    if status in BUSY:
        if now - created_at >= timedelta(seconds=limits.EVENT_DEFERRED_MOST):
            return End.GIVEN_UP
        return Again(now + _asked_for(answered.retry_after, now), counts=False)
    if attempts >= len(limits.EVENT_RETRIES):
        return End.GIVEN_UP
    spread = jitter(1 - limits.EVENT_JITTER, 1 + limits.EVENT_JITTER)
    return Again(now + timedelta(seconds=limits.EVENT_RETRIES[attempts] * spread), counts=True)


def echoes(body: bytes, challenge: str) -> bool:
    """Whether the receiver gives the challenge back, as ``{"challenge": …}``."""
    if not challenge:
        return True
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    echo = said.get("challenge") if isinstance(said, dict) else None
    return isinstance(echo, str) and hmac.compare_digest(echo.encode(), challenge.encode())


def _asked_for(retry_after: str | None, now: datetime) -> timedelta:
    """Seconds or an HTTP date, within a second and a day; a minute where nothing is said."""
    seconds = float(limits.EVENT_RETRY_AFTER)
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    elif text:
        seconds = _until(text, now) or seconds
    return timedelta(seconds=min(max(seconds, 1.0), float(limits.EVENT_RETRY_AFTER_MOST)))


def _until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 1.0)


REASONS = {
    End.GONE: "receiver_gone",
    End.GIVEN_UP: "delivery_failed",
}


@transaction.atomic
def settle(
    event_id: str, answered: Answered, *, attempts: int, now: datetime, jitter: Jitter
) -> str:
    """The state of the event afterwards.

    Whatever came to an end while the attempt was under way stays ended; of two attempts at the
    same time the first to be settled counts.
    """
    both = held(event_id)
    if both is None:
        return "deleted"
    event, subscription = both
    if event.status != Event.Status.QUEUED or event.attempts != attempts:
        return event.status
    event.answered, event.enqueued = answered.status, False
    found = verdict(
        answered,
        challenge=event.challenge,
        attempts=attempts,
        created_at=event.created_at,
        now=now,
        jitter=jitter,
    )
    _apply(found, event, subscription, now=now)
    event.save()
    return event.status


def _apply(found: Verdict, event: Event, subscription: Subscription, *, now: datetime) -> None:
    if isinstance(found, Again):
        event.due_at = found.at
        event.attempts += found.counts
    elif found is End.DELIVERED:
        event.status, event.settled_at = Event.Status.DELIVERED, now
        if event.type == Event.Type.VERIFY and subscription.status == Status.PENDING:
            become(subscription, Status.ACTIVE, reason=None, now=now)
    else:
        # Changes are told once the receiver is switched on again; what else failed has failed.
        if event.type != Event.Type.CHANGED:
            event.status, event.settled_at = Event.Status.FAILED, now
        if subscription.status in LIVE:
            become(subscription, Status.FAILED, reason=_reason(found, event), now=now)


def _reason(found: End, event: Event) -> str:
    if found is End.GIVEN_UP and event.type == Event.Type.VERIFY:
        return "verification_failed"
    return REASONS[found]
