"""What is asked of workers: deliver one event. The queue is procrastinate's, in the same database,
and a job is asked for in the very transaction that says why."""

from datetime import timedelta

from asgiref.sync import async_to_sync
from django.db import transaction
from django.utils import timezone
from procrastinate.contrib.django import app
from procrastinate.contrib.django.models import ProcrastinateJob
from procrastinate.jobs import Status

from evidence.events.delivering import attempt
from evidence.models.events import Event

QUEUE = "events"
AFTER_FAILURE = timedelta(minutes=5)


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
    """Gives back the events of workers that were killed in the middle of an attempt; how many.

    Nobody knows whether the receiver has got them: they are sent again, under the same id.
    """
    manager = app.job_manager
    stalled = async_to_sync(manager.get_stalled_jobs)(task_name=deliver.name)
    # Asked of the model: over Django's connection the library does not read the arguments.
    lost = ProcrastinateJob.objects.filter(id__in=[job.id for job in stalled])
    jobs = list(lost.values_list("id", "args"))
    for job_id, arguments in jobs:
        with transaction.atomic():
            async_to_sync(manager.finish_job_by_id_async)(
                job_id, status=Status.FAILED, delete_job=True
            )
            event = Event.unscoped.filter(event_id=arguments["event_id"])
            event.filter(status=Event.Status.QUEUED).update(enqueued=False)
    return len(jobs)
