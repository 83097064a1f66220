"""Run Procrastinate workers that deliver events, in the server or alone.

A worker runs an event loop in a thread. Each delivery runs in another thread with its own database
connection, which returns to the pool between deliveries.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator

import psycopg
from django.conf import settings
from procrastinate import App, PsycopgConnector
from procrastinate.contrib.django import app
from procrastinate.contrib.django.utils import connector_params
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import DeleteJobCondition

from evidence.events.tasks import HEARTBEAT_TIMEOUT, QUEUE
from operations import background_jobs

logger = logging.getLogger(__name__)

CONCURRENCY = 4
POLL_SECONDS = 0.5
"""The database notifies workers of new jobs, but not when a receiver is free for its next event."""

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
        background_jobs.run_repeatedly(background_jobs.events, pause=ENQUEUE_SECONDS),
        background_jobs.run_repeatedly(background_jobs.lost_events, pause=RECOVER_SECONDS),
        run_worker(),
    ):
        yield


@contextlib.contextmanager
def run_worker(*, concurrency: int = CONCURRENCY) -> Iterator[None]:
    """Run a worker until the block ends."""
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=_run_loop, args=(loop, stop, concurrency), name="worker")
    thread.start()
    try:
        yield
    finally:
        # The loop is closed if the worker has already ended.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.set)
        thread.join()


def _run_loop(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, concurrency: int) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_work_until(stop, concurrency))


async def _work_until(stop: asyncio.Event, concurrency: int) -> None:
    """Work until ``stop`` is set; reconnect to the database after errors."""
    stopped = asyncio.create_task(stop.wait())
    while not stop.is_set():
        work = asyncio.create_task(_work(concurrency))
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await work
            except (ConnectorException, psycopg.Error, OSError) as error:
                logger.warning("an event worker failed; retrying: %s", type(error).__name__)
        await asyncio.wait({stopped}, timeout=RECONNECT_SECONDS)


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
