"""What becomes of an event and its subscription by what the receiver has answered."""

from datetime import datetime

from django.db import transaction

from evidence.events.ending import LIVE, Status, become, held
from evidence.events.posting import Answered
from evidence.events.verdicts import Again, End, Jitter, Verdict, verdict
from evidence.models.events import Event, Subscription

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
