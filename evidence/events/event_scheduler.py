"""Create events for subscriptions with visible changes, and deliver those that are due.

One process at a time does this (``operations.jobs``), and skips what a request has locked. Owners take
turns, and one without due work costs nothing. The rows of events are the queue: an event is due until
the outcome of an attempt is stored, so a killed process loses none, and the next one sends it again
with the same id. No transaction is open during the HTTP request.
"""

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import NamedTuple, TypeAlias

from django.db import close_old_connections, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.grant_states import CURRENT_STATES, live_packages, with_grant_state
from evidence.access.tokens import package_scope
from evidence.errors import GrantExpired, GrantPaused, GrantRevoked
from evidence.events.messages import Message, create_change_event, prepare_attempt
from evidence.events.subscription_state import (
    EVENT_TYPES_BY_STATUS,
    SENDING_STATES,
    end_subscription,
    store_outcome,
)
from evidence.events.webhook_client import WebhookResponse, post, receiver_key
from evidence.models.connections import Connection
from evidence.models.events import Event, Subscription, WatchedStream
from evidence.models.owners import across_owners, acting_for, in_turn, owners_of

logger = logging.getLogger(__name__)

Clock: TypeAlias = Callable[[], datetime]
Send: TypeAlias = Callable[[Message], WebhookResponse]


def send(message: Message) -> WebhookResponse:
    """Send a message to its receiver."""
    return post(message.url, headers=message.headers, body=message.body)


def attempt_delivery(event_id: str, *, clock: Clock = timezone.now, send: Send = send) -> None:
    """Make one attempt to deliver an event, unless it must not be sent now."""
    attempt = prepare_attempt(event_id, now=clock())
    if attempt is None:
        return
    response = send(attempt.message)
    status = store_outcome(
        event_id, response, attempts=attempt.number, now=clock(), jitter=random.uniform
    )
    logger.info("event %s: response %s, now %s", event_id, response.status or "none", status)


CONCURRENCY = 4
POLL_SECONDS = 0.5
"""Time between two looks for due events while some are being sent."""

RETRY_AFTER_ERROR = timedelta(minutes=5)


class DueEvent(NamedTuple):
    """An event to send now."""

    due_at: datetime
    event_id: str
    owner_id: str
    callback_url: str


def deliver_events() -> Iterator[object]:
    """Create and send the events that are due, to each receiver one at a time.

    At the end of the generator, attempts that began are finished.
    """
    sending: dict[str, Future[None]] = {}
    owners: dict[str, str] = {}
    with ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="events") as pool:
        while True:
            yield from create_events()
            sending = {receiver: each for receiver, each in sending.items() if not each.done()}
            busy = [owners[receiver] for receiver in sending]
            for event in _in_turn(due_events(timezone.now()), busy):
                receiver = receiver_key(event.callback_url)
                if receiver not in sending and len(sending) < CONCURRENCY:
                    sending[receiver] = pool.submit(_deliver, event.owner_id, event.event_id)
                    owners[receiver] = event.owner_id
            if not sending:
                return
            wait(sending.values(), timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            yield len(sending)


def _deliver(owner_id: str, event_id: str) -> None:
    """Make one attempt. After an error of this server, the event waits."""
    try:
        with acting_for(owner_id):
            try:
                attempt_delivery(event_id)
            except Exception as error:  # noqa: BLE001 - its text may quote a record
                logger.warning("event %s could not be sent: %s", event_id, type(error).__name__)
                rows = Event.unscoped.filter(event_id=event_id, status=Event.Status.QUEUED)
                rows.update(due_at=timezone.now() + RETRY_AFTER_ERROR)
    finally:
        close_old_connections()


def _in_turn(events: Iterable[DueEvent], busy: Iterable[str]) -> list[DueEvent]:
    """Sort events: owners take turns, first those for whom the least is being sent."""
    turns = Counter(busy)
    placed = []
    for event in sorted(events):
        placed.append((turns[event.owner_id], event))
        turns[event.owner_id] += 1
    return [event for _, event in sorted(placed)]


RETENTION = timedelta(days=30)
"""How long settled events are kept for the owner to see."""

SENDABLE = reduce(
    or_,
    (
        Q(type__in=types, subscription__status=status)
        for status, types in EVENT_TYPES_BY_STATUS.items()
    ),
)


def create_events(*, clock: Callable[[], datetime] = timezone.now) -> Iterator[object]:
    """End subscriptions whose grant ended, and queue changes. Yields after each subscription.

    Runs one query if there is no subscription, and two if nothing is to do.
    """
    with across_owners():
        is_needed = Subscription.unscoped.exists()
    if is_needed:
        now = clock()
        yield from in_turn(lambda: _owners_to_check(now), lambda: _queue_owner_changes(now))


def _queue_owner_changes(now: datetime) -> Iterator[int]:
    for subscription_id in _subscriptions_to_check(now):
        yield queue_changes(subscription_id, now=now)


def queue_changes(subscription_id: str, *, now: datetime) -> int:
    """Queue an event for each watched stream with visible changes, and return their number.

    Ends the subscription if its grant has ended; does nothing while the grant is paused.
    """
    with transaction.atomic():
        rows = Subscription.unscoped.select_for_update(skip_locked=True)
        subscription = rows.filter(pk=subscription_id, status__in=SENDING_STATES).first()
        if subscription is None:
            return 0
        try:
            scope = package_scope(subscription.package_id, on_behalf_of=subscription_id, now=now)
        except GrantPaused:
            return 0
        except (GrantRevoked, GrantExpired) as error:
            end_subscription(subscription, reason=str(error.code), now=now)
            return 0
        gate = Gate(scope)
        events = [
            create_change_event(watched, gate, head=vars(watched)["head"], now=now)
            for watched in _outdated_watches().filter(subscription=subscription)
        ]
        return sum(event is not None for event in events)


def due_events(now: datetime) -> list[DueEvent]:
    """Return the earliest due event of each subscription of any owner. One query."""
    columns = ("due_at", "event_id", "owner_id", "subscription__callback_url")
    with across_owners():
        due = Event.unscoped.filter(SENDABLE, status=Event.Status.QUEUED, due_at__lte=now)
        earliest = due.order_by("owner", "subscription", "due_at", "event_id")
        rows = earliest.distinct("owner", "subscription").values_list(*columns)
        return [DueEvent(*row) for row in rows]


def delete_settled_events(*, now: datetime) -> int:
    """Delete events settled longer than RETENTION ago, and return their number."""
    return Event.unscoped.filter(settled_at__lt=now - RETENTION).delete()[0]


def _owners_to_check(now: datetime) -> list[str]:
    """Return the owners with subscriptions to check. One query."""

    def to_check() -> QuerySet[Subscription]:
        of_subscription = {"owner": OuterRef("owner")}
        live = with_grant_state(now).filter(
            Q(state__in=CURRENT_STATES), package=OuterRef("package"), **of_subscription
        )
        outdated = _outdated_watches().filter(subscription=OuterRef("pk"), **of_subscription)
        rows = Subscription.unscoped.filter(status__in=SENDING_STATES)
        return rows.filter(~Exists(live) | Exists(outdated))

    return owners_of(to_check)


def _subscriptions_to_check(now: datetime) -> list[str]:
    """Return sending subscriptions with unread changes, or whose grant has ended."""
    packages = dict(
        Subscription.unscoped.filter(status__in=SENDING_STATES).values_list("pk", "package_id")
    )
    current_packages = live_packages(packages.values(), now=now)
    outdated = _outdated_watches().filter(subscription__in=packages)
    ended = (pk for pk, package_id in packages.items() if package_id not in current_packages)
    return sorted({*outdated.values_list("subscription_id", flat=True), *ended})


def _outdated_watches() -> QuerySet[WatchedStream]:
    """Return watches behind the `head` of their connection that have no change event queued."""
    head = Connection.unscoped.filter(
        owner=OuterRef("owner"), connection_id=OuterRef("connection_id")
    )
    queued_event = Event.unscoped.filter(
        owner=OuterRef("owner"),
        subscription=OuterRef("subscription"),
        stream=OuterRef("stream"),
        connection_id=OuterRef("connection_id"),
        type=Event.Type.CHANGED,
        status=Event.Status.QUEUED,
    )
    rows = WatchedStream.unscoped.annotate(head=Subquery(head.values("change_seq")))
    return rows.filter(~Exists(queued_event), head__gt=F("seen_seq")).order_by("pk")
