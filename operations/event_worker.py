"""Workers that deliver events: in the process that serves, or alone as ``manage.py worker``.

The queue is procrastinate's. A worker runs in a thread with an event loop of its own; what it
delivers, it delivers in further threads, each with its database connection, which goes back to the
pool between two deliveries.
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

from evidence.events.tasks import QUEUE, SILENT_SECONDS
from operations import background_jobs

logger = logging.getLogger(__name__)

CONCURRENCY = 4
POLL_SECONDS = 0.5
"""So often a worker looks by itself: the database tells it of each new job, but not that a receiver
is free for the next message."""

CONNECTIONS = 3
AGAIN_SECONDS = 5.0
LAST_SECONDS = 12.0
"""So long a delivery under way may take when the worker is to stop."""

LOOK_SECONDS = 1.0
LOST_SECONDS = 3.0
HEARTBEAT_SECONDS = 3.0


@contextlib.contextmanager
def at_work() -> Iterator[None]:
    """Everything that events need, for as long as the block runs."""
    with (
        background_jobs.going_on(background_jobs.events, pause=LOOK_SECONDS),
        background_jobs.going_on(background_jobs.lost_events, pause=LOST_SECONDS),
        delivering(),
    ):
        yield


@contextlib.contextmanager
def delivering(*, concurrency: int = CONCURRENCY) -> Iterator[None]:
    """A worker for as long as the block runs."""
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=_run, args=(loop, stop, concurrency), name="worker")
    thread.start()
    try:
        yield
    finally:
        # Should it have ended by itself, its loop is closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.set)
        thread.join()


def _run(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, concurrency: int) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_until(stop, concurrency))


async def _until(stop: asyncio.Event, concurrency: int) -> None:
    """Work until told to stop; a database that cannot be reached is tried again."""
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
                logger.warning("a worker stopped and goes on later: %s", type(error).__name__)
        await asyncio.wait({stopped}, timeout=AGAIN_SECONDS)


async def _work(concurrency: int) -> None:
    async with _own_app().open_async() as own:
        await own.run_worker_async(
            queues=[QUEUE],
            concurrency=concurrency,
            fetch_job_polling_interval=POLL_SECONDS,
            # Behind PgBouncer nobody can be told anything.
            listen_notify=not settings.PDPP_PGBOUNCER,
            delete_jobs=DeleteJobCondition.ALWAYS,
            shutdown_graceful_timeout=LAST_SECONDS,
            update_heartbeat_interval=HEARTBEAT_SECONDS,
            stalled_worker_timeout=SILENT_SECONDS,
            install_signal_handlers=False,
        )


def _own_app() -> App:
    """The same tasks over asynchronous connections; requests go on with Django's own."""
    connector = PsycopgConnector(kwargs=connector_params(), min_size=1, max_size=CONNECTIONS)
    return app.with_connector(connector)
