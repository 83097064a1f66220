"""Background jobs: taken by one process, in turn within a lane, again after a killed process, woken."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from operations import health, jobs
from operations.jobs import Job
from operations.models import Job as JobRow
from tests.world import PERSONAL, World, mail

pytestmark = pytest.mark.django_db(transaction=True)
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(jobs, "RETRY_SECONDS", 0.02)


class Counted:
    """A job that counts its runs, and finds nothing to do."""

    def __init__(self, pause: float = 600, max_pause: float | None = 600) -> None:
        self.runs = threading.Semaphore(0)
        self.job = Job(
            name="counted", lane="one", steps=self.look, pause=pause, max_pause=max_pause
        )

    def look(self) -> Iterator[int]:
        self.runs.release()
        yield 0

    def has_run(self, *, seconds: float = PATIENCE) -> bool:
        return self.runs.acquire(timeout=seconds)


def row(name: str) -> JobRow:
    return JobRow.unscoped.get(pk=name)


def wait_until(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def endless(name: str, done: list[str], lane: str = "one") -> Job:
    def steps() -> Iterator[int]:
        while True:
            done.append(name)
            yield 1

    return Job(name=name, lane=lane, steps=steps)


def test_job_runs_again_after_its_pause_until_the_block_ends() -> None:
    counted = Counted(pause=0.01, max_pause=None)
    with jobs.run_jobs([counted.job]):
        assert all(counted.has_run() for _ in range(3))

    assert row("counted").leased_until is None
    assert not [each for each in threading.enumerate() if each.name.startswith("jobs")]


def test_jobs_of_a_lane_take_turns_and_lanes_do_not_wait() -> None:
    done: list[str] = []
    with jobs.run_jobs([endless("a", done), endless("b", done), endless("c", done, "two")]):
        wait_until(lambda: min(map(done.count, "abc")) > 100)
    together = "".join(name for name in done if name != "c")
    both = together[max(together.index("a"), together.index("b")) :]

    assert len(both) > 2
    assert "aa" not in both
    assert "bb" not in both


def test_job_alone_in_its_lane_may_read_a_copy_between_its_steps() -> None:
    is_done = threading.Event()

    def steps() -> Iterator[int]:
        statement = "COPY (SELECT generate_series(1, 3)) TO STDOUT"
        with connection.cursor() as cursor, cursor.copy(statement) as rows:
            for _ in rows:
                time.sleep(2 * jobs.LOOK_SECONDS)
                yield 1
        is_done.set()

    with jobs.run_jobs([Job(name="copying", lane="one", steps=steps, pause=600)]):
        assert is_done.wait(PATIENCE)


def test_failed_job_runs_again_and_its_text_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tried: list[int] = []

    def steps() -> Iterator[int]:
        tried.append(1)
        if len(tried) < 3:
            raise DatabaseError("it quotes a secret record")
        yield 1

    with jobs.run_jobs([Job(name="failing", lane="one", steps=steps, pause=0.01)]):
        wait_until(lambda: row("failing").failing_since is not None or len(tried) >= 3)
        wait_until(lambda: len(tried) >= 3 and row("failing").failing_since is None)

    assert "background job failing failed" in caplog.text
    assert "secret" not in caplog.text


def test_two_processes_never_have_a_job_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most, runs = [0], [0], [0]

    def steps() -> Iterator[int]:
        runs[0] += 1
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        yield 1
        inside[0] -= 1

    job = Job(name="alone", lane="one", steps=steps, pause=0)
    with jobs.run_jobs([job]), jobs.run_jobs([job]):
        wait_until(lambda: runs[0] > 20)

    assert most == [1]


def test_lease_lasts_as_long_as_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LEASE_SECONDS", 2.0)
    monkeypatch.setattr(jobs, "RENEW_SECONDS", 0.1)
    ended = threading.Event()
    runs: list[int] = []

    def steps() -> Iterator[int]:
        runs.append(1)
        ended.wait()
        yield 1

    job = Job(name="long", lane="one", steps=steps, pause=600)
    with jobs.run_jobs([job]), jobs.run_jobs([job]):
        time.sleep(4)
        assert len(runs) == 1
        ended.set()


def test_job_of_a_killed_process_is_done_again_after_its_lease() -> None:
    counted = Counted()
    jobs.register(["counted"])
    lease = timezone.now() + timedelta(seconds=2)
    JobRow.unscoped.update(worker="killed", leased_until=lease)
    with jobs.run_jobs([counted.job]):
        assert not counted.has_run(seconds=0.5)
        assert counted.has_run()
        assert timezone.now() >= lease


def test_process_that_lost_its_lease_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "RENEW_SECONDS", 0.05)
    done: list[str] = []
    later = timezone.now() + timedelta(hours=1)
    with jobs.run_jobs([endless("lost", done)]):
        wait_until(lambda: done)
        JobRow.unscoped.update(worker="another", leased_until=later)
        wait_until(lambda: done == [*done, time.sleep(0.3)][:-1])

    assert (row("lost").worker, row("lost").leased_until) == ("another", later)


@pytest.fixture
def idle() -> Iterator[Counted]:
    """A job that has looked once and would look again in ten minutes."""
    counted = Counted()
    with jobs.run_jobs([counted.job]):
        assert counted.has_run()
        wait_until(lambda: row("counted").due_at > timezone.now())
        yield counted


def store_record(world: World) -> None:
    world.put((PERSONAL, "messages", mail("woken", received_at="2026-01-03T09:00:00Z")))


ONE_SERVER = pytest.mark.one_server("Rows on a node of a cluster wake no job.")


@pytest.mark.parametrize(
    "commit", [pytest.param(store_record, marks=ONE_SERVER), lambda _: jobs.notify()]
)
def test_commit_wakes_an_idle_job(
    committed: World, idle: Counted, commit: Callable[[World], None]
) -> None:
    commit(committed)

    assert idle.has_run()


def test_job_is_woken_after_a_lost_connection(committed: World, idle: Counted) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name <> 'unknown'"
            " AND query LIKE '%%operations_job%%' AND pid <> pg_backend_pid()"
        )

    assert idle.has_run()


def test_job_that_is_woken_while_it_runs_runs_again(committed: World) -> None:
    begun, ended = threading.Semaphore(0), threading.Event()

    def steps() -> Iterator[int]:
        begun.release()
        ended.wait()
        yield 0

    with jobs.run_jobs([Job(name="woken", lane="one", steps=steps, pause=600, max_pause=600)]):
        assert begun.acquire(timeout=PATIENCE)
        due_at = row("woken").due_at
        jobs.notify()
        wait_until(lambda: row("woken").due_at != due_at)
        ended.set()
        assert begun.acquire(timeout=PATIENCE)


def test_job_looks_itself_where_nothing_can_wake_it(settings: pytest.FixtureRequest) -> None:
    settings.PDPP_PGBOUNCER = True  # type: ignore[attr-defined]
    counted = Counted(pause=0.01)
    with jobs.run_jobs([counted.job]):
        assert all(counted.has_run() for _ in range(3))


@pytest.mark.parametrize("cause", ["waits", "fails"])
def test_job_that_waits_or_fails_for_long_is_reported(cause: str) -> None:
    jobs.register(["one", "two"])
    now = timezone.now()
    since = now - health.STALLED_AFTER - timedelta(seconds=1)
    JobRow.unscoped.update(leased_until=now + timedelta(hours=1), due_at=since)
    assert health.background_warning(now) is None

    waits = {"leased_until": now - timedelta(seconds=1)}
    JobRow.unscoped.filter(pk="two").update(
        **(waits if cause == "waits" else {"failing_since": since})
    )

    assert health.background_warning(now) == health.JOBS_WAIT.format(since=since)


def test_job_that_exists_no_longer_is_forgotten() -> None:
    jobs.register(["former", "recent"])
    JobRow.unscoped.filter(pk="former").update(due_at=timezone.now() - timedelta(days=2))

    jobs.register(["present"])

    assert {each.pk for each in JobRow.unscoped.all()} == {"recent", "present"}


def test_jobs_go_on_after_a_restore_emptied_the_table() -> None:
    counted = Counted(pause=0.01)
    with jobs.run_jobs([counted.job]):
        assert counted.has_run()
        JobRow.unscoped.all().delete()
        while counted.runs.acquire(blocking=False):
            pass
        assert counted.has_run()
