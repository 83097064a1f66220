"""What an event says, made anew for each attempt from what the grant shows then.

So a revocation, a pause or a narrowing holds from the next attempt on, and what has been taken back
is not told. The attempt is in the ledger before it goes out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from cryptography.exceptions import InvalidTag
from django.db import transaction

from evidence.access.gate import Gate
from evidence.access.grant_states import is_partly_paused
from evidence.access.scope import Scope
from evidence.access.tokens import standing
from evidence.errors import (
    CursorExpired,
    GrantExpired,
    GrantPaused,
    GrantRevoked,
    RateLimitExceeded,
)
from evidence.events.change_detection import afresh, followed, told
from evidence.events.messages import Message, body, signed
from evidence.events.signing_secrets import opened
from evidence.events.subscription_state import LIVE, SENT_WHILE, Status, become, end, held, put_back
from evidence.ledger.entries import Shown
from evidence.ledger.writer import Answer, record
from evidence.models.events import Event, Subscription
from evidence.reading.bookmarks import BEGINNING, Followed

PAUSE = timedelta(seconds=30)
"""So long after it was resumed at most, a paused grant's events go on."""

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is to be sent. ``number`` counts the failed attempts before it."""

    number: int
    message: Message


@transaction.atomic
def prepare(event_id: str, *, now: datetime) -> Attempt | None:
    """None where nothing must go out now; the event then waits, or has come to its end."""
    both = held(event_id)
    if both is None:
        return None
    event, subscription = both
    if event.status != Event.Status.QUEUED or not event.enqueued:
        return None
    if event.type not in SENT_WHILE.get(subscription.status, ()):
        put_back(event, until=event.due_at)
        return None
    try:
        return _allowed(event, subscription, now=now)
    except InvalidTag:
        # The installation has another key than when it was sealed.
        if subscription.status in LIVE:
            become(subscription, Status.FAILED, reason="secret_unreadable", now=now)
        event.status, event.settled_at = Event.Status.FAILED, now
        event.save()
        return None


def _allowed(event: Event, subscription: Subscription, *, now: datetime) -> Attempt | None:
    """The message, where the grant stands."""
    if event.type == Event.Type.REVOKED:
        return _signed(event, subscription, {"reason": subscription.disabled_reason}, now=now)
    try:
        scope = standing(subscription.package_id, on_behalf_of=subscription.pk, now=now)
    except GrantPaused:
        put_back(event, until=now + PAUSE)
        return None
    except (GrantRevoked, GrantExpired) as ended:
        end(subscription, reason=str(ended.code), now=now)
        return None
    if event.type == Event.Type.CHANGED:
        return _of_changes(event, subscription, scope, now=now)
    data = {"challenge": event.challenge} if event.type == Event.Type.VERIFY else {}
    return _signed(event, subscription, data, now=now)


def _of_changes(
    event: Event, subscription: Subscription, scope: Scope, *, now: datetime
) -> Attempt | None:
    """Dropped where the grant shows nothing of it any more; it waits where its limits are used up, and
    while a grant that may show it is paused beside others."""
    gate = Gate(scope)
    following = followed(gate, stream=event.stream, connection_id=event.connection_id)
    if following is None and is_partly_paused(subscription.package_id, now=now):
        put_back(event, until=now + PAUSE)
        return None
    data = None if following is None else _data(event, following, now=now)
    if data is None:
        event.status, event.settled_at = Event.Status.DROPPED, now
        event.save()
        return None
    prepared = _signed(event, subscription, data, now=now)
    answer = Answer(
        route="event records changed",
        request_id=event.event_id,
        shown=[Shown(event.connection_id, event.stream, None, frozenset())],
        size_bytes=len(prepared.message.body),
    )
    try:
        record(scope, answer, now=now)
    except RateLimitExceeded as refusal:
        put_back(event, until=now + timedelta(seconds=int(str(refusal.extra["retry_after"]))))
        return None
    return prepared


def _data(event: Event, following: Followed, *, now: datetime) -> Data | None:
    """Where to read, and roughly how much there is; None where there is nothing to read."""
    place = {"stream": event.stream, "connection_id": event.connection_id}
    anew = place | {"changes_since": BEGINNING}
    if event.place is None:
        return anew
    try:
        since = following.recalled(event.place)
        page = told(following, since, now=now)
    except CursorExpired:
        return anew
    if not page.told:
        return None
    return place | {
        "change_count_hint": len(page.told),
        "changes_since": following.sealed(afresh(since), now=now),
    }


def _signed(event: Event, subscription: Subscription, data: Data, *, now: datetime) -> Attempt:
    kept = [bytes(subscription.secret)]
    if subscription.old_secret is not None and (subscription.old_secret_until or now) > now:
        kept.append(bytes(subscription.old_secret))
    message = signed(
        body(event, data),
        url=subscription.callback_url,
        event_id=event.event_id,
        secrets=[opened(each, subscription_id=subscription.pk) for each in kept],
        now=now,
    )
    return Attempt(event.attempts, message)
