"""Idle background jobs are woken by commits."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from operations import background_jobs, event_worker, job_wakeups
from tests.world import PERSONAL, World, mail

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE = 60.0


def wait_until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


class Job:
    """Counts its runs, and finds nothing to do."""

    def __init__(self) -> None:
        self.runs = threading.Semaphore(0)

    def look(self) -> Iterator[int]:
        self.runs.release()
        yield 0

    def has_run(self) -> bool:
        return self.runs.acquire(timeout=PATIENCE)


@pytest.fixture
def idle() -> Iterator[Job]:
    """A job that has looked once and would look again in ten minutes."""
    job = Job()
    with job_wakeups.listen():
        wait_until(job_wakeups.is_listening)
        with background_jobs.run_repeatedly(job.look, pause=600, max_pause=600):
            assert job.has_run()
            yield job


def store_record(world: World) -> None:
    world.put((PERSONAL, "messages", mail("woken", received_at="2026-01-03T09:00:00Z")))


@pytest.mark.parametrize("commit", [store_record, lambda _: job_wakeups.notify()])
def test_commit_wakes_an_idle_job(
    committed: World, idle: Job, commit: Callable[[World], None]
) -> None:
    commit(committed)

    assert idle.has_run()


def test_job_is_woken_after_a_lost_connection(
    committed: World, idle: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_wakeups, "RECONNECT_SECONDS", 0.01)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )

    assert idle.has_run()


def test_jobs_are_woken_after_the_event_worker_has_failed(
    idle: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(*_: object) -> None:
        pass

    monkeypatch.setattr(event_worker, "_work_until", end)
    with event_worker.run_worker():
        wait_until(lambda: "worker" not in {thread.name for thread in threading.enumerate()})
        for _ in range(2):
            job_wakeups.notify()
            assert idle.has_run()


def test_job_looks_itself_while_nothing_listens() -> None:
    job = Job()
    with background_jobs.run_repeatedly(job.look, pause=0, max_pause=600):
        assert all(job.has_run() for _ in range(3))
