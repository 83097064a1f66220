"""Run Procrastinate workers that deliver events, in the server or alone.

A worker runs while there are jobs, as an event loop in a thread. Each delivery runs in another
thread with its own database connection, which returns to the pool between deliveries.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import psycopg
from django.conf import settings
from django.db import Error, close_old_connections
from procrastinate import App, PsycopgConnector
from procrastinate.contrib.django import app
from procrastinate.contrib.django.utils import connector_params
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import DeleteJobCondition

from evidence.events.event_scheduler import HEARTBEAT_TIMEOUT, QUEUE, has_jobs
from operations import background_jobs, job_wakeups
from operations.background_jobs import Job

logger = logging.getLogger(__name__)

CONCURRENCY = 4
POLL_SECONDS = 0.5
"""The database notifies workers of new jobs, but not when a receiver is free for its next event."""

IDLE_SECONDS = 10.0
"""A worker without jobs ends after this time, because its polls and heartbeats cost CPU."""

MAX_CONNECTIONS = 3
RECONNECT_SECONDS = 5.0
SHUTDOWN_SECONDS = 12.0
"""Time that a running delivery has to finish when the worker stops."""

ENQUEUE_SECONDS = 1.0
RECOVER_SECONDS = 3.0
HEARTBEAT_SECONDS = 3.0


@contextlib.contextmanager
def deliver_events() -> Iterator[None]:
    """Enqueue and deliver events until the block ends."""
    with (
        _run_while_needed(background_jobs.events, ENQUEUE_SECONDS),
        _run_while_needed(background_jobs.lost_events, RECOVER_SECONDS),
        run_worker(),
    ):
        yield


def _run_while_needed(job: Job, pause: float) -> contextlib.AbstractContextManager[None]:
    return background_jobs.run_repeatedly(
        job, pause=pause, max_pause=background_jobs.MAX_IDLE_SECONDS
    )


@contextlib.contextmanager
def run_worker(*, concurrency: int = CONCURRENCY) -> Iterator[None]:
    """Run a worker until the block ends, whenever there are jobs."""
    loop = asyncio.new_event_loop()
    stop, woken = asyncio.Event(), asyncio.Event()
    thread = threading.Thread(
        target=_run_loop, args=(loop, _work_until(stop, woken, concurrency)), name="worker"
    )

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed once the worker has ended
            loop.call_soon_threadsafe(woken.set)

    with job_wakeups.woken_by(wake):
        thread.start()
        try:
            yield
        finally:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(stop.set)
            thread.join()


def _run_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work)


async def _work_until(stop: asyncio.Event, woken: asyncio.Event, concurrency: int) -> None:
    """Work whenever there are jobs until ``stop`` is set; reconnect to the database after errors."""
    stopped = asyncio.create_task(stop.wait())
    while not stop.is_set():
        woken.clear()
        try:
            if await asyncio.to_thread(_has_jobs):
                await _work_while_busy(stopped, concurrency)
        except (ConnectorException, Error, psycopg.Error, OSError) as error:
            logger.warning("an event worker failed; retrying: %s", type(error).__name__)
            await asyncio.wait({stopped}, timeout=RECONNECT_SECONDS)
        waking = asyncio.create_task(woken.wait())
        pause = background_jobs.MAX_IDLE_SECONDS if job_wakeups.is_listening() else POLL_SECONDS
        await asyncio.wait({stopped, waking}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        waking.cancel()


async def _work_while_busy(stopped: "asyncio.Task[bool]", concurrency: int) -> None:
    """Work until there are no jobs for a while. Raises the errors of the worker."""
    work = asyncio.create_task(_work(concurrency))
    is_busy = True
    while is_busy and not stopped.done():
        await asyncio.wait(
            {work, stopped}, timeout=IDLE_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        is_busy = not work.done() and await asyncio.to_thread(_has_jobs)
    if not work.done():
        work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


def _has_jobs() -> bool:
    try:
        return has_jobs()
    finally:
        close_old_connections()


async def _work(concurrency: int) -> None:
    async with _async_app().open_async() as async_app:
        await async_app.run_worker_async(
            queues=[QUEUE],
            concurrency=concurrency,
            fetch_job_polling_interval=POLL_SECONDS,
            # LISTEN does not work behind PgBouncer.
            listen_notify=not settings.PDPP_PGBOUNCER,
            delete_jobs=DeleteJobCondition.ALWAYS,
            shutdown_graceful_timeout=SHUTDOWN_SECONDS,
            update_heartbeat_interval=HEARTBEAT_SECONDS,
            stalled_worker_timeout=HEARTBEAT_TIMEOUT,
            install_signal_handlers=False,
        )


def _async_app() -> App:
    """Return the app with asynchronous connections; requests use Django's own."""
    connector = PsycopgConnector(kwargs=connector_params(), min_size=1, max_size=MAX_CONNECTIONS)
    return app.with_connector(connector)
