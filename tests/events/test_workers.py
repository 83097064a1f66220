"""Events are sent by a real worker on committed rows, once and in order."""

import contextlib
import threading
import time
from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.db.models import QuerySet
from django.utils import timezone

from evidence.events import event_scheduler
from evidence.events.event_scheduler import deliver_events
from evidence.models.events import Event
from operations import jobs
from operations.jobs import Job
from tests.events.receiving import SUBSCRIPTIONS, Receiver, send_json
from tests.events.test_changes import message_row
from tests.world import World

PATIENCE = 60.0
EVENTS = (Job(name="events", lane="events", steps=deliver_events),)
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_scheduler, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 0.02)


def wait_until(condition: Callable[[], object], *, seconds: float = PATIENCE) -> None:
    """Wait until a condition set by another thread is true."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.02)


def test_concurrent_workers_deliver_an_event_once(committed: World, receiver: Receiver) -> None:
    send_json(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    send_json(committed, "POST", SUBSCRIPTIONS, "dora", callback_url=receiver.url)

    with jobs.run_jobs(EVENTS), jobs.run_jobs(EVENTS):
        wait_until(lambda: all(row["status"] == "active" for row in subscription_bodies(committed)))
        for number in range(5):
            committed.put(message_row(f"n{number}"))
        wait_until(lambda: Event.unscoped.filter(type=Event.Type.CHANGED).exists())
        wait_until(lambda: not queued().exists())

    ids = [each.envelope["id"] for each in receiver.received]
    assert len(ids) == len(set(ids))
    assert {change["connection_id"] for change in receiver.changes} == {"cin_personal"}


def queued() -> "QuerySet[Event]":
    return Event.unscoped.filter(status=Event.Status.QUEUED)


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

    with jobs.run_jobs(EVENTS):
        wait_until(lambda: len(receiver.received) == 4)
        wait_until(lambda: not queued().exists())

    assert most == [1]


def test_attempt_that_began_ends_before_another_process_may_send(
    committed: World, receiver: Receiver
) -> None:
    send_json(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    receiver.echoes = False
    receiver.willing.clear()
    timer = threading.Timer(0.5, receiver.willing.set)
    with jobs.run_jobs(EVENTS):
        wait_until(lambda: receiver.received)
        timer.start()

    assert Event.unscoped.get().answered == 200
    timer.join()


def test_internal_error_lets_the_event_wait(
    committed: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_json(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    def fails(_event_id: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(event_scheduler, "attempt_delivery", fails)
    list(deliver_events())

    event = Event.unscoped.get()
    assert event.status == "queued"
    assert event.due_at > timezone.now()


def test_worker_command_runs_until_stopped(
    committed: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_json(committed, "POST", SUBSCRIPTIONS, callback_url=receiver.url)

    class Stopped:
        def wait(self) -> None:
            wait_until(lambda: receiver.received)
            raise KeyboardInterrupt

    monkeypatch.setattr("pdpp_site.management.commands.worker.Event", Stopped)
    with contextlib.suppress(KeyboardInterrupt):
        call_command("worker")

    assert [each.type for each in receiver.received] == ["pdpp.subscription.verify"]
    assert Event.unscoped.get().created_at < timezone.now()
