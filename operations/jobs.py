"""Run background jobs: one table, one worker in each process, and a thread for each lane.

A row of ``operations_job`` says when a job is due. A worker takes due rows that no other one has
(FOR UPDATE SKIP LOCKED), and has a lease, which it prolongs until the job ends; no transaction and no
lock is held meanwhile. The lease of a killed process runs out, and another one does the job again. So
each step of a job must find what is left to do in the database, and may be done twice.

Jobs of one lane take turns step by step, and lanes do not wait for each other: a long import delays
neither erasures nor events. Commits wake idle jobs: triggers on the tables that jobs depend on notify
one channel.
"""

import contextlib
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from django.conf import settings
from django.db import Error, connection

from evidence.advisory_locks import own_connection

logger = logging.getLogger(__name__)

CHANNEL = "pdpp_jobs"
LEASE_SECONDS = 15.0
"""Time after which the jobs of a killed process are done by another one."""

RENEW_SECONDS = 4.0
RETRY_SECONDS = 5.0
"""Pause after an error of the database."""

LOOK_SECONDS = 1.0
"""Time between two looks for due jobs of a lane that is at work, and between two wake-ups."""

PAUSE_SECONDS = 1.0
"""Pause after a run, and so the delay until a new record has vectors."""

MAX_IDLE_SECONDS = 30.0
"""Longest pause of a job that found no work several times, unless a commit wakes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job of the registry.

    ``steps`` does all work that is due, in steps that leave no transaction open, and yields whether it
    did something. After runs that did nothing, the pause doubles up to ``max_pause`` seconds, and
    commits wake the job; with None, it runs every ``pause`` seconds. ``stop`` ends a long step early.
    """

    name: str
    lane: str
    steps: Callable[[], Iterator[object]]
    pause: float = PAUSE_SECONDS
    max_pause: float | None = MAX_IDLE_SECONDS
    stop: Callable[[], None] | None = None


REGISTER = """
-- Add jobs that have no row, and forget others that no process did for a day. Parameters: names, twice.
WITH gone AS (
    DELETE FROM operations_job WHERE name <> ALL(%s) AND due_at < now() - interval '1 day'
)
INSERT INTO operations_job (name, due_at, worker)
SELECT name, now(), '' FROM unnest(%s::text[]) AS name
ON CONFLICT DO NOTHING
"""
TAKE = """
-- Take the due jobs that no process has, and return what they were due at.
-- Parameters: the worker, seconds of the lease, names.
UPDATE operations_job SET worker = %s, leased_until = now() + make_interval(secs => %s)
WHERE name IN (
    SELECT name FROM operations_job
    WHERE name = ANY(%s) AND due_at <= now() AND (leased_until IS NULL OR leased_until < now())
    FOR UPDATE SKIP LOCKED
)
RETURNING name, due_at
"""
RENEW = """
-- Prolong the leases of a worker, and return its jobs. Parameters: seconds, the worker, names.
UPDATE operations_job SET leased_until = now() + make_interval(secs => %s)
WHERE worker = %s AND name = ANY(%s) AND leased_until IS NOT NULL
RETURNING name
"""
FINISH = """
-- End a lease. A job that was woken during its run stays due.
-- Parameters: when it was due, seconds until it is due again, whether it failed, the name, the worker.
UPDATE operations_job SET leased_until = NULL,
    due_at = CASE WHEN due_at = %s THEN now() + make_interval(secs => %s) ELSE due_at END,
    failing_since = CASE WHEN %s THEN coalesce(failing_since, now()) END
WHERE name = %s AND worker = %s
"""
WAKE = "UPDATE operations_job SET due_at = now() WHERE name = ANY(%s)"
SECONDS_LEFT = """
-- Return the seconds until a job can be taken. Parameter: names.
SELECT extract(epoch FROM min(greatest(due_at, leased_until)) - now())::float8
FROM operations_job WHERE name = ANY(%s)
"""
WAITING_SINCE = """
-- Return since when the first job fails, or waits for a process. Parameter: now.
SELECT min(coalesce(failing_since, due_at)) FROM operations_job
WHERE failing_since IS NOT NULL OR leased_until IS NULL OR leased_until < %s
"""


def notify() -> None:
    """Wake the jobs of all processes when this transaction commits."""
    _query("SELECT pg_notify(%s, '')", CHANNEL)


def register(names: Iterable[str]) -> None:
    """Add all jobs to the table, so that health knows of them before a process runs them."""
    known = list(names)
    _query(REGISTER, known, known)


def waiting_since(now: datetime) -> datetime | None:
    """Return since when a job fails or waits for a process; it may be in the future."""
    since: datetime | None = _query(WAITING_SINCE, now)[0][0]
    return since


def _query(statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return [] if cursor.description is None else cursor.fetchall()


@contextlib.contextmanager
def run_jobs(jobs: Sequence[Job]) -> Iterator[None]:
    """Run jobs in this process until the block ends, those that no other process has."""
    worker = _Worker(jobs)
    worker.start()
    try:
        yield
    finally:
        worker.stop()


@contextlib.contextmanager
def run_every(seconds: float, work: Callable[[], object]) -> Iterator[None]:
    """Do ``work`` in a thread of this process until the block ends, whatever other processes do."""
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(seconds):
            try:
                work()
            except Exception as error:  # noqa: BLE001 - it is done again
                logger.warning("work of this process failed: %s", type(error).__name__)

    thread = threading.Thread(target=run, name="background")
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


class _Worker:
    """The threads of this process: one for each lane, and one that keeps leases and listens."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.id = f"{socket.gethostname()} {os.getpid()} {id(self):x}"
        self.stopped = threading.Event()
        self.is_listening = False
        self._woken_names = [job.name for job in jobs if job.max_pause is not None]
        lanes: dict[str, list[Job]] = {}
        for job in jobs:
            lanes.setdefault(job.lane, []).append(job)
        self._lanes = [_Lane(self, each) for each in lanes.values()]
        self._stop_reader, self._stop_writer = os.pipe()
        targets = {"jobs": self._keep} | {f"jobs {name}": lane.run for name, lane in
                                          zip(lanes, self._lanes, strict=True)}  # fmt: skip
        self._threads = [threading.Thread(target=run, name=name) for name, run in targets.items()]

    def start(self) -> None:
        self.register()
        for thread in self._threads:
            thread.start()

    def register(self) -> None:
        register(job.name for lane in self._lanes for job in lane.jobs)

    def stop(self) -> None:
        """Stop between two steps; the leases are kept until what a job began has ended."""
        self.stopped.set()
        keeper, *lanes = self._threads
        for lane in self._lanes:
            lane.stop()
        for thread in lanes:
            thread.join()
        os.write(self._stop_writer, b"\0")
        keeper.join()
        os.close(self._stop_reader)
        os.close(self._stop_writer)

    def _keep(self) -> None:
        """Prolong the leases of this process, and wake its lanes at each notification."""
        while True:
            own = own_connection()
            try:
                with own.cursor() as cursor:
                    if not settings.PDPP_PGBOUNCER:  # LISTEN does not work behind it
                        cursor.execute(f"LISTEN {CHANNEL}")
                        self.is_listening = True
                    self._wake(cursor)  # for what was committed before
                    self._keep_leases(own.connection, cursor)
            except (Error, psycopg.Error, OSError) as error:
                logger.warning("leases of jobs could not be kept: %s", type(error).__name__)
            finally:
                self.is_listening = False
                own.close()
            if self._must_stop_within(RETRY_SECONDS):
                return

    def _keep_leases(self, own: "psycopg.Connection[Any]", cursor: Any) -> None:
        notified: list[object] = []
        own.add_notify_handler(notified.append)
        sources = [own.fileno(), self._stop_reader]
        while self._stop_reader not in select.select(sources, [], [], RENEW_SECONDS)[0]:
            taken = {name for lane in self._lanes for name in lane.running.copy()}
            cursor.execute(RENEW, [LEASE_SECONDS, self.id, list(taken)])  # reads notifications, too
            kept = {name for (name,) in cursor.fetchall()}
            for lane in self._lanes:
                lane.lost |= taken - kept
            if notified:
                notified.clear()
                self._wake(cursor)
                # Commits in quick succession wake jobs once.
                if self._must_stop_within(LOOK_SECONDS):
                    return

    def _wake(self, cursor: Any) -> None:
        cursor.execute(WAKE, [self._woken_names])
        for lane in self._lanes:
            lane.woken.set()

    def _must_stop_within(self, seconds: float) -> bool:
        return bool(select.select([self._stop_reader], [], [], seconds)[0])


@dataclass(slots=True)
class _Run:
    """A job that this process has."""

    job: Job
    due_at: datetime
    steps: Iterator[object]
    has_worked: bool = False


@dataclass
class _Lane:
    """The thread of a lane."""

    worker: _Worker
    jobs: Sequence[Job]
    running: dict[str, _Run] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    """Jobs whose lease has run out, because the database was away."""
    woken: threading.Event = field(default_factory=threading.Event)
    _pauses: dict[str, float] = field(default_factory=dict)
    _looked_at: float = float("-inf")

    def run(self) -> None:
        while not self.worker.stopped.is_set():
            self.woken.clear()
            try:
                self._take_due()
                if not self.running:
                    self._rest()
            except (Error, OSError) as error:
                logger.warning("due jobs could not be found: %s", type(error).__name__)
                self._reconnect()
                self.worker.stopped.wait(RETRY_SECONDS)
            for name in list(self.running):
                if self.worker.stopped.is_set():
                    break
                self._step(self.running[name])
        for run in list(self.running.values()):
            self._end(run, pause=0)
        connection.close()

    def stop(self) -> None:
        """Let the thread end after the step at which it is."""
        self.woken.set()
        for job in self.jobs:
            if job.stop is not None:
                job.stop()

    def _take_due(self) -> None:
        free = {job.name: job for job in self.jobs if job.name not in self.running}
        # Without a query where nothing is free: a backup has the connection to itself, for COPY.
        if not free or (self.running and time.monotonic() - self._looked_at < LOOK_SECONDS):
            return
        self._looked_at = time.monotonic()
        for name, due_at in _query(TAKE, self.worker.id, LEASE_SECONDS, list(free)):
            self.lost.discard(name)
            self.running[name] = _Run(free[name], due_at, iter(free[name].steps()))

    def _rest(self) -> None:
        """Wait until a job can be taken, or until one is woken."""
        [(left,)] = _query(SECONDS_LEFT, [job.name for job in self.jobs])
        if left is None:  # a backup was restored
            self.worker.register()
        connection.close()
        if not self.worker.stopped.is_set():
            self.woken.wait(min(max(0.01, left or 0), MAX_IDLE_SECONDS))

    def _step(self, run: _Run) -> None:
        name = run.job.name
        if name in self.lost:
            self._end(run, pause=0)
            return
        try:
            has_worked = bool(next(run.steps))
        except StopIteration:
            self._end(run, pause=self._pause_after(run))
        except Exception as error:  # noqa: BLE001 - a failed job runs again
            # The error's text may quote a record.
            logger.warning("background job %s failed; retrying: %s", name, type(error).__name__)
            self._reconnect()
            self._end(run, pause=run.job.pause, has_failed=True)
        else:
            run.has_worked |= has_worked

    def _pause_after(self, run: _Run) -> float:
        job = run.job
        pause = job.pause
        if not run.has_worked and job.max_pause is not None and self.worker.is_listening:
            pause = min(2 * self._pauses.get(job.name, job.pause), job.max_pause)
        self._pauses[job.name] = pause
        return pause

    def _end(self, run: _Run, *, pause: float, has_failed: bool = False) -> None:
        try:
            if isinstance(run.steps, Generator):
                run.steps.close()
            _query(FINISH, run.due_at, pause, has_failed, run.job.name, self.worker.id)
        except Exception as error:  # noqa: BLE001 - the lease runs out
            logger.warning("background job %s did not end: %s", run.job.name, type(error).__name__)
            self._reconnect()
        del self.running[run.job.name]

    def _reconnect(self) -> None:
        with contextlib.suppress(Error):
            connection.close_if_unusable_or_obsolete()
