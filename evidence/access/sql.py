"""Joining and running statements over personal rows: the only cursor outside ``storing``."""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import psycopg
from django.db import connection
from psycopg import pq

from evidence.access.scope import TimeRange
from evidence.errors import QueryTimeout

_deadline = ContextVar("deadline", default=math.inf)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of SQL, constant, and the values of its placeholders."""

    text: str
    values: tuple[Any, ...] = ()

    def __add__(self, other: "Fragment") -> "Fragment":
        return Fragment(self.text + other.text, self.values + other.values)


def joined(separator: str, fragments: Iterable[Fragment]) -> Fragment:
    parts = list(fragments)
    values = tuple(value for part in parts for value in part.values)
    return Fragment(separator.join(part.text for part in parts), values)


def within(column: str, time: TimeRange) -> Fragment:
    """Rows whose time lies in a range; one that has none lies outside."""
    condition = Fragment(f" AND {column} IS NOT NULL")
    if time.since is not None:
        condition += Fragment(f" AND {column} >= %s", (time.since,))
    if time.until is not None:
        condition += Fragment(f" AND {column} < %s", (time.until,))
    return condition


@contextmanager
def time_limited(seconds: int) -> Iterator[None]:
    """Limit the statements of a transaction that has just begun: each of them, and all together.

    PostgreSQL cancels a statement that takes longer; after that many seconds no further one of this
    module starts (``QueryTimeout``). Zero is no limit. The limit travels with BEGIN, so it costs no
    round trip, ends with the transaction and works behind PgBouncer in transaction mode.
    """
    if not seconds or not _begin(f"BEGIN; SET LOCAL statement_timeout = {seconds * 1000}"):
        yield
        return
    limit = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(limit)


def _begin(command: str) -> bool:
    """Begin the transaction with ``command``; False inside a transaction of somebody else."""
    connection.ensure_connection()
    pgconn: pq.abc.PGconn = connection.connection.pgconn
    if pgconn.transaction_status != pq.TransactionStatus.IDLE:
        return False
    result = pgconn.exec_(command.encode())
    if result.status != pq.ExecStatus.COMMAND_OK:
        with connection.wrap_database_errors:
            raise psycopg.OperationalError(pq.error_message(pgconn))
    return True


def _refuse_late() -> None:
    if time.monotonic() > _deadline.get():
        raise QueryTimeout


def fetched(statement: Fragment) -> Sequence[tuple[Any, ...]]:
    """All rows of one statement, planned for its values."""
    _refuse_late()
    with connection.cursor() as cursor:
        cursor.execute(statement.text, statement.values)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    return rows


def fetched_by_one_plan(statement: Fragment) -> Sequence[tuple[Any, ...]]:
    """All rows of a statement whose best plan is the same whatever its values.

    The values travel apart from the text, so the server plans it once a connection and not once a
    request; over partitioned tables that is most of its work. Answers come in binary.
    """
    _refuse_late()
    connection.ensure_connection()
    raw: Any = psycopg.RawCursor(connection.connection)
    raw.format = psycopg.pq.Format.BINARY
    # What connection.cursor() wraps its own cursors in; the first kind is for counting statements.
    wrap = connection.make_debug_cursor if connection.queries_logged else connection.make_cursor
    with wrap(raw) as cursor:
        cursor.execute(_numbered(statement.text), statement.values)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    return rows


@lru_cache(maxsize=256)
def _numbered(text: str) -> str:
    """The placeholders as the server itself has them. The driver would look for them in every long
    statement anew, which takes longer than many a statement runs."""
    first, *others = text.split("%s")
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, start=1))
