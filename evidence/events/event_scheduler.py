"""Finding out what there is to tell, and asking a worker to deliver it.

Runs beside requests, in every process that does background work; whichever holds a subscription
works on it, and the others go on to the next (SKIP LOCKED).
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import reduce
from operator import or_

from django.db import transaction
from django.db.models import Exists, F, Min, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.grant_states import standing_packages
from evidence.access.tokens import standing
from evidence.errors import GrantExpired, GrantPaused, GrantRevoked
from evidence.events.callback_url import target
from evidence.events.change_detection import notice
from evidence.events.subscription_state import LIVE, SENT_WHILE, end
from evidence.events.tasks import deliver
from evidence.models.connections import Connection
from evidence.models.events import Event, Subscription, WatchedStream

KEPT = timedelta(days=30)
"""So long the owner can see what became of an event."""

SENDABLE = reduce(
    or_, (Q(type__in=kinds, subscription__status=status) for status, kinds in SENT_WHILE.items())
)


def announce(*, clock: Callable[[], datetime] = timezone.now) -> Iterator[object]:
    """One round: what has ended, what has changed, what is due. Cheap where nobody subscribes."""
    if not Subscription.unscoped.exists():
        return
    now = clock()
    for subscription_id in _to_look_at(now):
        yield look_after(subscription_id, now=now)
    yield enqueue_due(now=now)


def look_after(subscription_id: str, *, now: datetime) -> int:
    """Queues an event for each stream of a subscription that has something to tell; how many.

    A subscription whose grant has ended is ended; one that is paused waits.
    """
    with transaction.atomic():
        rows = Subscription.unscoped.select_for_update(skip_locked=True)
        subscription = rows.filter(pk=subscription_id, status__in=LIVE).first()
        if subscription is None:
            return 0
        try:
            scope = standing(subscription.package_id, on_behalf_of=subscription_id, now=now)
        except GrantPaused:
            return 0
        except (GrantRevoked, GrantExpired) as ended:
            end(subscription, reason=str(ended.code), now=now)
            return 0
        gate = Gate(scope)
        due = list(_moved().filter(subscription=subscription))
        return sum(notice(each, gate, head=vars(each)["head"], now=now) is not None for each in due)


def enqueue_due(*, now: datetime) -> int:
    """Asks a worker to deliver each event whose time has come; how many."""
    with transaction.atomic():
        due = list(
            Event.unscoped.select_for_update(skip_locked=True, of=("self",))
            .select_related("subscription")
            .filter(SENDABLE, status=Event.Status.QUEUED, enqueued=False, due_at__lte=now)
            .order_by("due_at", "event_id")[:100]
        )
        for event in due:
            event.enqueued = True
            event.save(update_fields=["enqueued"])
            # To one receiver one message goes at a time, whoever works on it.
            lock = target(event.subscription.callback_url)
            deliver.configure(lock=lock).defer(event_id=event.event_id)
    return len(due)


def waiting_since() -> datetime | None:
    """When the next message should go out, or should have gone."""
    queued = Event.unscoped.filter(SENDABLE, status=Event.Status.QUEUED)
    found: datetime | None = queued.aggregate(at=Min("due_at"))["at"]
    return found


def forget_settled(*, now: datetime) -> int:
    """Deletes events that have long come to their end; how many."""
    return Event.unscoped.filter(settled_at__lt=now - KEPT).delete()[0]


def _to_look_at(now: datetime) -> list[str]:
    """Live subscriptions with changes nobody has looked at, or whose grant has ended."""
    live = dict(Subscription.unscoped.filter(status__in=LIVE).values_list("pk", "package_id"))
    stand = standing_packages(live.values(), now=now)
    moved = _moved().filter(subscription__in=live).values_list("subscription_id", flat=True)
    ended = (pk for pk, package_id in live.items() if package_id not in stand)
    return sorted({*moved, *ended})


def _moved() -> QuerySet[WatchedStream]:
    """Watches behind the ``head`` of their connection, of which no event is on its way."""
    head = Connection.unscoped.filter(connection_id=OuterRef("connection_id"))
    on_its_way = Event.unscoped.filter(
        subscription=OuterRef("subscription"),
        stream=OuterRef("stream"),
        connection_id=OuterRef("connection_id"),
        type=Event.Type.CHANGED,
        status=Event.Status.QUEUED,
    )
    rows = WatchedStream.unscoped.annotate(head=Subquery(head.values("change_seq")))
    return rows.filter(~Exists(on_its_way), head__gt=F("seen_seq")).order_by("pk")
