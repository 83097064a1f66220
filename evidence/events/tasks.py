"""What is asked of workers: deliver one event. The queue is procrastinate's, in the same database,
and a job is asked for in the very transaction that says why."""

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

from evidence.events.delivery_outcome import settle
from evidence.events.message_builder import prepare
from evidence.events.messages import Message
from evidence.events.webhook_client import Answered, post
from evidence.models.events import Event

logger = logging.getLogger(__name__)

Clock: TypeAlias = Callable[[], datetime]
Send: TypeAlias = Callable[[Message], Answered]


def send(message: Message) -> Answered:
    return post(message.url, headers=message.headers, body=message.body)


def attempt(event_id: str, *, clock: Clock = timezone.now, send: Send = send) -> None:
    """Delivers an event, or arranges for another attempt; nothing where it must not go out."""
    prepared = prepare(event_id, now=clock())
    if prepared is None:
        return
    answered = send(prepared.message)
    settled = settle(
        event_id, answered, attempts=prepared.number, now=clock(), jitter=random.uniform
    )
    logger.info("event %s: answered %s, now %s", event_id, answered.status or "nothing", settled)


QUEUE = "events"
AFTER_FAILURE = timedelta(minutes=5)
SILENT_SECONDS = 15.0
"""A worker not heard of for so long is dead. One that is to stop says nothing more while it ends its
last attempt, which takes ``EVENT_TIMEOUT`` at most."""


@app.task(name="evidence.events.deliver", queue=QUEUE)
def deliver(event_id: str) -> None:
    """One attempt. Whatever comes next is decided there, not by the queue."""
    try:
        attempt(event_id)
    except Exception:
        # The worker tells the log what failed; the event must not be lost with the job.
        rows = Event.unscoped.filter(event_id=event_id, status=Event.Status.QUEUED)
        rows.update(enqueued=False, due_at=timezone.now() + AFTER_FAILURE)
        raise


def forget_lost() -> int:
    """Gives back the events that a worker was killed with in the middle of an attempt, and those whose
    jobs are not there, as after a restored backup; how many.

    Nobody knows whether the receiver has got them: they are sent again, under the same id.
    """
    manager = app.job_manager
    stalled = async_to_sync(manager.get_stalled_jobs)(
        task_name=deliver.name, seconds_since_heartbeat=SILENT_SECONDS
    )
    for job in stalled:
        if job.id is not None:
            async_to_sync(manager.finish_job_by_id_async)(
                job.id, status=Status.FAILED, delete_job=True
            )
    waiting = Event.unscoped.filter(status=Event.Status.QUEUED, enqueued=True)
    jobs = ProcrastinateJob.objects.annotate(event_id=KT("args__event_id"))
    job_of = jobs.filter(event_id=OuterRef("event_id"))
    return waiting.filter(~Exists(job_of)).update(enqueued=False)
