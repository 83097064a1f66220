"""Wake background jobs when another transaction commits work for them.

Triggers on the tables that jobs depend on notify one channel (migration 0040). One thread per process
listens, and wakes every idle job.
"""

import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from django.conf import settings
from django.db import Error, connection

from evidence.advisory_locks import own_connection

logger = logging.getLogger(__name__)

CHANNEL = "pdpp_jobs"
RECONNECT_SECONDS = 5.0

_wakers: list[Callable[[], object]] = []
_listening = threading.Event()


def is_listening() -> bool:
    """Return whether idle jobs are woken; without this they must look for work themselves."""
    return _listening.is_set()


def notify() -> None:
    """Wake the jobs of all processes when this transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])


@contextlib.contextmanager
def woken_by(wake: Callable[[], object]) -> Iterator[None]:
    """Call ``wake`` from the listening thread at each notification while the block runs."""
    _wakers.append(wake)
    try:
        yield
    finally:
        _wakers.remove(wake)


@contextlib.contextmanager
def listen() -> Iterator[None]:
    """Listen until the block ends. Does nothing behind PgBouncer, which LISTEN does not work with."""
    if settings.PDPP_PGBOUNCER:
        yield
        return
    stop_reader, stop_writer = os.pipe()
    thread = threading.Thread(target=_listen, args=(stop_reader,), name="listener")
    thread.start()
    try:
        yield
    finally:
        os.write(stop_writer, b"\0")
        thread.join()
        os.close(stop_reader)
        os.close(stop_writer)


def _listen(stop: int) -> None:
    is_stopped = False
    while not is_stopped:
        own = own_connection()
        try:
            with own.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
            _wake_jobs()  # for what was committed before
            _listening.set()
            _wait_and_wake(own.connection, stop)
        except (Error, psycopg.Error, OSError) as error:
            logger.warning("jobs look for work themselves: %s", type(error).__name__)
        finally:
            _listening.clear()
            own.close()
        is_stopped = bool(select.select([stop], [], [], RECONNECT_SECONDS)[0])


def _wait_and_wake(own: "psycopg.Connection[Any]", stop: int) -> None:
    """Wake all jobs at each notification until ``stop`` is readable."""
    # psycopg's own generator would look ten times a second whether it was interrupted.
    while stop not in select.select([own.fileno(), stop], [], [])[0]:
        for _ in own.notifies(timeout=0):
            pass
        _wake_jobs()


def _wake_jobs() -> None:
    for wake in _wakers.copy():
        wake()
