"""Procrastinate tasks that deliver one event and recover lost deliveries.

The queue is in the same database, so a job is created in the transaction that queues its event. No
transaction is open during the HTTP request.
"""

import logging
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias

from asgiref.sync import async_to_sync
from django.db.models import Exists, OuterRef
from django.db.models.fields.json import KT
from django.utils import timezone
from procrastinate.contrib.django import app
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.jobs import Status

from evidence.events.delivery_outcome import store_outcome
from evidence.events.messages import Message, prepare_attempt
from evidence.events.webhook_client import WebhookResponse, post
from evidence.models.events import Event

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
def deliver(event_id: str) -> None:
    """Make one attempt. The event's row, not the queue, decides about further attempts."""
    try:
        attempt_delivery(event_id)
    except Exception:
        # The worker logs the error. Requeue the event, because its job ends here.
        rows = Event.unscoped.filter(event_id=event_id, status=Event.Status.QUEUED)
        rows.update(enqueued=False, due_at=timezone.now() + RETRY_AFTER_ERROR)
        raise


def has_enqueued_events() -> bool:
    """Return whether a worker has, or should have, something to deliver."""
    return Event.unscoped.filter(status=Event.Status.QUEUED, enqueued=True).exists()


def has_jobs() -> bool:
    """Return whether a worker has something to do."""
    return ProcrastinateJob.objects.filter(queue_name=QUEUE).exists()


def recover_lost_deliveries() -> int:
    """Requeue events whose worker died or whose job is missing, and return their number.

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
    enqueued = Event.unscoped.filter(status=Event.Status.QUEUED, enqueued=True)
    jobs = ProcrastinateJob.objects.annotate(event_id=KT("args__event_id"))
    job_of_event = jobs.filter(event_id=OuterRef("event_id"))
    return enqueued.filter(~Exists(job_of_event)).update(enqueued=False)
