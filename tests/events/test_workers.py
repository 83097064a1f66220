"""Real workers on committed rows: two concurrent workers, and workers that are killed."""

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone
from procrastinate.contrib.django import app

from evidence.events.event_scheduler import deliver, enqueue_events, recover_lost_deliveries
from evidence.models.events import Event
from operations import event_worker
from tests.events.receiving import SUBSCRIPTIONS, Receiver, send_json
from tests.events.test_changes import message_row
from tests.world import World

PATIENCE = 60.0
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def committed(committed: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(event_worker, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(event_worker, "ENQUEUE_SECONDS", 0.02)
    yield committed
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE procrastinate_jobs, procrastinate_workers CASCADE")


def wait_until(condition: Callable[[], object], *, seconds: float = PATIENCE) -> None:
    """Wait until a condition set by another thread is true."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.02)


def test_concurrent_workers_deliver_an_event_once(committed: World, receiver: Receiver) -> None:
    """Two workers with several slots each, and two schedulers, deliver one event."""
    send_json(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    send_json(committed, "POST", SUBSCRIPTIONS, "dora", callback_url=receiver.url)

    with event_worker.deliver_events(), event_worker.deliver_events():
        wait_until(lambda: all(row["status"] == "active" for row in subscription_bodies(committed)))
        for number in range(5):
            committed.put(message_row(f"n{number}"))
        wait_until(lambda: Event.unscoped.filter(type=Event.Type.CHANGED).exists())
        wait_until(lambda: queued().count() == jobs() == 0)

    ids = [each.envelope["id"] for each in receiver.received]
    assert len(ids) == len(set(ids))
    assert {change["connection_id"] for change in receiver.changes} == {"cin_personal"}
    # A scheduler may have enqueued an event while the workers stopped.
    assert jobs() == queued().filter(enqueued=True).count()


def queued() -> "QuerySet[Event]":
    return Event.unscoped.filter(status=Event.Status.QUEUED)


def jobs() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_jobs")
        [count] = cursor.fetchone()
    return int(count)


def subscription_bodies(world: World) -> list[dict[str, object]]:
    return [row for who in ("bob", "dora") for row in world.get(SUBSCRIPTIONS, who).body["data"]]


def test_receiver_gets_one_message_at_a_time(
    committed: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, most = [0], [0]
    answer = receiver.answer

    def slow(message: object) -> tuple[int, bytes]:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        time.sleep(0.05)
        under_way[0] -= 1
        return answer(message)  # type: ignore[arg-type] # as the receiver has it

    monkeypatch.setattr(receiver, "answer", slow)
    for _ in range(4):
        send_json(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    with event_worker.deliver_events():
        wait_until(lambda: len(receiver.received) == 4)
        wait_until(lambda: not Event.unscoped.filter(status=Event.Status.QUEUED).exists())

    assert most == [1]


def test_attempt_of_killed_worker_is_repeated(committed: World, receiver: Receiver) -> None:
    send_json(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    list(enqueue_events())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = 'doing'")
    list(enqueue_events())
    assert Event.unscoped.get().enqueued

    assert recover_lost_deliveries() == 1
    list(enqueue_events())

    with event_worker.run_worker():
        wait_until(lambda: receiver.received)
        wait_until(lambda: not Event.unscoped.filter(status=Event.Status.QUEUED).exists())
    assert len(receiver.received) == 1


def test_internal_error_requeues_the_event(
    committed: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_json(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    list(enqueue_events())
    event = Event.unscoped.get()

    def fails(_event_id: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("evidence.events.event_scheduler.attempt_delivery", fails)
    with pytest.raises(ZeroDivisionError):
        deliver(event.owner_id, event.event_id)

    event.refresh_from_db()
    assert (event.status, event.enqueued) == ("queued", False)
    assert event.due_at > timezone.now()


def test_event_without_job_is_requeued(committed: World, receiver: Receiver) -> None:
    """Jobs are missing after a backup was restored."""
    send_json(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    list(enqueue_events())
    assert recover_lost_deliveries() == 0
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs")

    assert recover_lost_deliveries() == 1
    list(enqueue_events())

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_jobs")
        assert cursor.fetchone() == (1,)


def test_event_and_job_are_committed_together(
    committed: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_json(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    def fails(**_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr("evidence.events.event_scheduler.receiver_key", lambda _url: fails())
        with pytest.raises(ZeroDivisionError):
            list(enqueue_events())

    assert not Event.unscoped.get().enqueued
    list(enqueue_events())
    assert Event.unscoped.get().enqueued
    jobs = list(async_to_sync(app.job_manager.list_jobs_async)(task=deliver.name))
    assert [job.lock for job in jobs] == [receiver.url.split("/")[2]]


def test_worker_command_runs_until_stopped(
    committed: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_json(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    class Stopped:
        def wait(self) -> None:
            wait_until(lambda: receiver.received)
            raise KeyboardInterrupt

    monkeypatch.setattr("operations.management.commands.worker.Event", Stopped)
    with contextlib.suppress(KeyboardInterrupt):
        call_command("worker")

    assert [each.type for each in receiver.received] == ["pdpp.subscription.verify"]
    assert Event.unscoped.get().created_at < timezone.now()
