"""Real workers on committed rows: what two of them, or one that is killed, make of an event."""

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

from evidence.events.event_scheduler import announce
from evidence.events.tasks import deliver, forget_lost
from evidence.models.events import Event
from operations import event_worker
from tests.events.receiving import SUBSCRIPTIONS, Receiver, ask
from tests.events.test_changes import new
from tests.world import World

PATIENCE = 20.0
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def committed(committed: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(event_worker, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(event_worker, "LOOK_SECONDS", 0.02)
    yield committed
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE procrastinate_jobs, procrastinate_workers CASCADE")


def until(true: Callable[[], object], *, seconds: float = PATIENCE) -> None:
    """Waits for what another thread does, and no longer than that takes."""
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.02)


def test_an_event_is_delivered_once_however_many_work(committed: World, receiver: Receiver) -> None:
    """Two workers, each ready for several events at a time, and two that find out what is due."""
    ask(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    ask(committed, "POST", SUBSCRIPTIONS, "dora", callback_url=receiver.url)

    with event_worker.at_work(), event_worker.at_work():
        until(lambda: all(row["status"] == "active" for row in shown(committed)))
        for number in range(5):
            committed.put(new(f"n{number}"))
        until(lambda: Event.unscoped.filter(type=Event.Type.CHANGED).exists())
        until(lambda: queued().count() == jobs() == 0)

    ids = [each.envelope["id"] for each in receiver.received]
    assert len(ids) == len(set(ids))
    assert {told["connection_id"] for told in receiver.changes} == {"cin_personal"}
    # Something may have been found due while the workers stopped.
    assert jobs() == queued().filter(enqueued=True).count()


def queued() -> "QuerySet[Event]":
    return Event.unscoped.filter(status=Event.Status.QUEUED)


def jobs() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_jobs")
        [count] = cursor.fetchone()
    return int(count)


def shown(world: World) -> list[dict[str, object]]:
    return [row for who in ("bob", "dora") for row in world.get(SUBSCRIPTIONS, who).body["data"]]


def test_one_receiver_gets_one_message_at_a_time(
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
        ask(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    with event_worker.at_work():
        until(lambda: len(receiver.received) == 4)
        until(lambda: not Event.unscoped.filter(status=Event.Status.QUEUED).exists())

    assert most == [1]


def test_what_a_killed_worker_had_begun_is_sent_again(committed: World, receiver: Receiver) -> None:
    ask(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    list(announce())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = 'doing'")
    list(announce())
    assert Event.unscoped.get().enqueued

    assert forget_lost() == 1
    list(announce())

    with event_worker.delivering():
        until(lambda: receiver.received)
        until(lambda: not Event.unscoped.filter(status=Event.Status.QUEUED).exists())
    assert len(receiver.received) == 1


def test_an_attempt_that_fails_here_does_not_lose_the_event(
    committed: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    list(announce())
    event = Event.unscoped.get()

    def fails(_event_id: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("evidence.events.tasks.attempt", fails)
    with pytest.raises(ZeroDivisionError):
        deliver(event.event_id)

    event.refresh_from_db()
    assert (event.status, event.enqueued) == ("queued", False)
    assert event.due_at > timezone.now()


def test_an_event_without_a_job_is_queued_anew(committed: World, receiver: Receiver) -> None:
    """So it is after a restored backup, which has no queue."""
    ask(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    list(announce())
    assert forget_lost() == 0
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM procrastinate_jobs")

    assert forget_lost() == 1
    list(announce())

    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM procrastinate_jobs")
        assert cursor.fetchone() == (1,)


def test_an_event_and_the_job_for_it_are_committed_together(
    committed: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    def fails(**_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr("evidence.events.event_scheduler.target", lambda _url: fails())
        with pytest.raises(ZeroDivisionError):
            list(announce())

    assert not Event.unscoped.get().enqueued
    list(announce())
    assert Event.unscoped.get().enqueued
    jobs = list(async_to_sync(app.job_manager.list_jobs_async)(task=deliver.name))
    assert [job.lock for job in jobs] == [receiver.url.split("/")[2]]


def test_the_command_works_until_it_is_stopped(
    committed: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    class Stopped:
        def wait(self) -> None:
            until(lambda: receiver.received)
            raise KeyboardInterrupt

    monkeypatch.setattr("operations.management.commands.worker.Event", Stopped)
    with contextlib.suppress(KeyboardInterrupt):
        call_command("worker")

    assert [each.type for each in receiver.received] == ["pdpp.subscription.verify"]
    assert Event.unscoped.get().created_at < timezone.now()
