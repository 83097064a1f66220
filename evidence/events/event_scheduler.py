"""Create events for subscriptions with visible changes, and deliver those that are due.

Every process that runs background jobs does this. A process skips subscriptions and events that
another one has locked (SKIP LOCKED). Owners take turns, and one without due work costs nothing. The queue (Procrastinate) is in the same database, so a job is
created in the transaction that queues its event. No transaction is open during the HTTP request.
"""

import logging
import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import TypeAlias

from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.models import Exists, F, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KT
from django.utils import timezone
from procrastinate.contrib.django import app
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.jobs import Status

from evidence.access.gate import Gate
from evidence.access.grant_states import CURRENT_STATES, live_packages, with_grant_state
from evidence.access.tokens import package_scope
from evidence.errors import GrantExpired, GrantPaused, GrantRevoked
from evidence.events.change_detection import create_change_event
from evidence.events.messages import Message, prepare_attempt
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


QUEUE = "events"
RETRY_AFTER_ERROR = timedelta(minutes=5)
HEARTBEAT_TIMEOUT = 15.0
"""Seconds without a heartbeat after which a worker counts as dead.

A stopping worker sends none during its last attempt, which takes EVENT_TIMEOUT at most.
"""


@app.task(name="evidence.events.deliver", queue=QUEUE)
def deliver(owner_id: str, event_id: str) -> None:
    """Make one attempt. The event's row, not the queue, decides about further attempts."""
    with acting_for(owner_id):
        try:
            attempt_delivery(event_id)
        except Exception:
            # The worker logs the error. Requeue the event, because its job ends here.
            rows = Event.unscoped.filter(event_id=event_id, status=Event.Status.QUEUED)
            rows.update(enqueued=False, due_at=timezone.now() + RETRY_AFTER_ERROR)
            raise


def has_enqueued_events() -> bool:
    """Return whether a worker has, or should have, something to deliver, of any owner."""
    with across_owners():
        return Event.unscoped.filter(status=Event.Status.QUEUED, enqueued=True).exists()


def has_jobs() -> bool:
    """Return whether a worker has something to do."""
    return ProcrastinateJob.objects.filter(queue_name=QUEUE).exists()


def recover_lost_deliveries() -> int:
    """Requeue events of all owners whose worker died or whose job is missing. Returns their number.

    The receiver may have received them already; they are sent again with the same id. Jobs are
    missing after a backup was restored, for example.
    """
    manager = app.job_manager
    stalled = async_to_sync(manager.get_stalled_jobs)(
        task_name=deliver.name, seconds_since_heartbeat=HEARTBEAT_TIMEOUT
    )
    for job in stalled:
        if job.id is not None:
            async_to_sync(manager.finish_job_by_id_async)(
                job.id, status=Status.FAILED, delete_job=True
            )
    with across_owners():
        enqueued = Event.unscoped.filter(status=Event.Status.QUEUED, enqueued=True)
        # Events first: one whose job is created meanwhile is not among them. No statement asks for
        # both, since a cluster keeps jobs on the coordinator, and events on the nodes.
        event_ids = set(enqueued.values_list("event_id", flat=True))
        if not event_ids:
            return 0
        jobs = ProcrastinateJob.objects.annotate(event_id=KT("args__event_id"))
        event_ids -= set(jobs.filter(event_id__in=event_ids).values_list("event_id", flat=True))
        return enqueued.filter(event_id__in=event_ids).update(enqueued=False)


RETENTION = timedelta(days=30)
"""How long settled events are kept for the owner to see."""

SENDABLE = reduce(
    or_,
    (
        Q(type__in=types, subscription__status=status)
        for status, types in EVENT_TYPES_BY_STATUS.items()
    ),
)


def enqueue_events(*, clock: Callable[[], datetime] = timezone.now) -> Iterator[object]:
    """Run one round: end subscriptions, queue changes, enqueue due events. Yields after each step.

    Runs one query if there is no subscription, and three if nothing is due.
    """
    with across_owners():
        is_needed = Subscription.unscoped.exists()
    if is_needed:
        now = clock()
        yield from in_turn(lambda: _due_owners(now), lambda: _enqueue_owner_events(now))


def _enqueue_owner_events(now: datetime) -> Iterator[object]:
    for subscription_id in _subscriptions_to_check(now):
        yield queue_changes(subscription_id, now=now)
    yield enqueue_due_events(now=now)


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


def enqueue_due_events(*, now: datetime) -> int:
    """Ask workers to deliver the events that are due, and return their number."""
    with transaction.atomic():
        due = list(
            _due_events(now)
            .select_for_update(skip_locked=True, of=("self",))
            .select_related("subscription")
            .order_by("due_at", "event_id")[:100]
        )
        for event in due:
            event.enqueued = True
            event.save(update_fields=["enqueued"])
            # The lock makes workers send one message at a time to each receiver.
            lock = receiver_key(event.subscription.callback_url)
            deliver.configure(lock=lock).defer(owner_id=event.owner_id, event_id=event.event_id)
    return len(due)


def _due_events(now: datetime) -> QuerySet[Event]:
    return Event.unscoped.filter(
        SENDABLE, status=Event.Status.QUEUED, enqueued=False, due_at__lte=now
    )


def next_due_at() -> datetime | None:
    """Return when the next message of any owner is due, which may be in the past."""
    with across_owners():
        queued = Event.unscoped.filter(SENDABLE, status=Event.Status.QUEUED)
        due_at: datetime | None = queued.aggregate(at=Min("due_at"))["at"]
    return due_at


def delete_settled_events(*, now: datetime) -> int:
    """Delete events settled longer than RETENTION ago, and return their number."""
    return Event.unscoped.filter(settled_at__lt=now - RETENTION).delete()[0]


def _due_owners(now: datetime) -> set[str]:
    """Return the owners with subscriptions to check or events to enqueue. Two queries."""

    def to_check() -> QuerySet[Subscription]:
        of_subscription = {"owner": OuterRef("owner")}
        live = with_grant_state(now).filter(
            Q(state__in=CURRENT_STATES), package=OuterRef("package"), **of_subscription
        )
        outdated = _outdated_watches().filter(subscription=OuterRef("pk"), **of_subscription)
        rows = Subscription.unscoped.filter(status__in=SENDING_STATES)
        return rows.filter(~Exists(live) | Exists(outdated))

    return {*owners_of(to_check), *owners_of(lambda: _due_events(now))}


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
