"""Compose and run parameterized SQL over personal rows.

This is the only database cursor outside ``evidence.write``.
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import psycopg
from django.db import connection, transaction
from psycopg import pq

from evidence.access.scope import Only, TimeRange
from evidence.errors import QueryTimeout
from evidence.models.owners import current_owner

SORT_BLOCKER = "NULL::char(10485760)"
"""A null column that PostgreSQL estimates at 40 MB per row, so that a plan with a sort looks too
expensive. The planner then uses the index in the requested order, even with missing or outdated
statistics: without it a list of a grant with few records reads 4,050 rows in place of 200
(tests/access/test_plans.py)."""

BLOB_TABLES = (
    "evidence_blob b JOIN evidence_record r ON r.owner_id = b.owner_id"
    " AND r.connection_id = b.connection_id"
    " AND r.stream = b.stream AND r.record_key = b.record_key"
)

MAX_NAMED_CONNECTIONS = 8
"""Above this many connections, one lateral join reads them all, so the statement stays short."""

_deadline = ContextVar("deadline", default=math.inf)


@dataclass(frozen=True, slots=True)
class SQL:
    """Constant SQL text and the values of its placeholders."""

    text: str
    values: tuple[Any, ...] = ()

    def __add__(self, other: "SQL") -> "SQL":
        return SQL(self.text + other.text, self.values + other.values)


def join_sql(separator: str, fragments: Iterable[SQL]) -> SQL:
    parts = list(fragments)
    values = tuple(value for part in parts for value in part.values)
    return SQL(separator.join(part.text for part in parts), values)


def union_all(branches: Iterable[SQL]) -> SQL:
    return join_sql(" UNION ALL ", branches)


def owner_is(alias: str = "r") -> SQL:
    """Return the start of a condition: the rows of a table belong to the current owner."""
    return SQL(f"{alias}.owner_id = %s AND ", (current_owner(),))


def text_array(texts: Iterable[str]) -> str:
    """Return an array of texts as PostgreSQL reads it, for a parameter that is cast to an array.

    100 keys take 46 µs; the driver takes 368, because it looks at the type of each element.
    """
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join([f'"{text}"' for text in escaped]) + "}"


def bytes_array(values: Iterable[bytes]) -> str:
    """Return an array of bytes as PostgreSQL reads it, for a parameter that is cast to an array."""
    return text_array(f"\\x{value.hex()}" for value in values)


def value_table(name: str, columns: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> SQL:
    """Return a table of values for FROM. ``columns`` maps names to SQL types."""
    arrays = ", ".join(f"%s::{kind}[]" for kind in columns.values())
    values = tuple(
        text_array(row[place] for row in rows) if kind == "text" else [row[place] for row in rows]
        for place, kind in enumerate(columns.values())
    )
    return SQL(f"unnest({arrays}) AS {name}({', '.join(columns)})", values)


def in_time_range(column: str, time: TimeRange) -> SQL:
    """Return a condition that the column lies in a time range. A null time never does."""
    condition = SQL(f" AND {column} IS NOT NULL")
    if time.since is not None:
        condition += SQL(f" AND {column} >= %s", (time.since,))
    if time.until is not None:
        condition += SQL(f" AND {column} < %s", (time.until,))
    return condition


def grant_condition(stream: str, time: object, records: object) -> SQL:
    """Return the row restrictions of one grant, one clause per line."""
    condition = SQL(" AND r.stream = %s", (stream,))
    if isinstance(time, TimeRange):
        condition += in_time_range("r.consent_time", time)
    if isinstance(records, Only):
        condition += SQL(" AND r.record_key = ANY(%s)", (sorted(records.names),))
    return condition


@dataclass(frozen=True, slots=True)
class SortPartition:
    """The records with a sort ``key``, of a SQL type for its parameter, or those without one."""

    order: SQL
    condition: SQL = SQL("")
    key: SQL | None = None
    cast: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionGroup:
    """Connections that are read under the same condition."""

    stream: str
    connection_ids: list[str]
    condition: SQL
    record_keys: list[str] | None = None
    """The only keys that the terms allow, None if they allow every key."""

    def rows(self, connection: SQL, table: str = "evidence_record r") -> SQL:
        """Return FROM and WHERE for the rows ``r`` of one connection; allowed keys are looked up."""
        if self.record_keys is None:
            return (
                SQL(f" FROM {table} WHERE ")
                + owner_is()
                + SQL("r.connection_id = ")
                + connection
                + self.condition
            )
        keys = SQL(" FROM unnest(%s::text[]) AS n(key)", (self.record_keys,))
        return keys + self.join_row(connection, "n.key", table) + SQL(" WHERE TRUE")

    def join_row(self, connection: SQL, key: str, table: str = "evidence_record r") -> SQL:
        """Return a join with the row ``r`` of a key, by the primary key with any statistics.

        The key is a range and the order is by key, so any other index would need a sort.
        """
        row = SQL(f" CROSS JOIN LATERAL (SELECT * FROM (SELECT *, {SORT_BLOCKER} FROM {table}")
        row += SQL(" WHERE ") + owner_is() + SQL("r.connection_id = ") + connection
        row += SQL(f" AND r.stream = %s AND r.record_key BETWEEN {key} AND {key}", (self.stream,))
        return (
            row + SQL(" ORDER BY r.record_key LIMIT 1) r WHERE TRUE") + self.condition + SQL(") r")
        )

    def first_rows(
        self, columns: SQL, partition: SortPartition, where: Sequence[SQL], *, limit: int
    ) -> Iterator[SQL]:
        """Yield subqueries for the first rows of each connection, in the order of the partition."""
        ids = self.connection_ids
        is_lateral = not 1 <= len(ids) <= MAX_NAMED_CONNECTIONS
        for value in [SQL("c.id")] if is_lateral else [SQL("%s", (id_,)) for id_ in ids]:
            rows = SQL("SELECT ") + columns + self.rows(value)
            rows += partition.condition + join_sql("", where)
            rows += SQL(" ORDER BY ") + partition.order + SQL(" LIMIT %s", (limit,))
            if is_lateral:
                connections = SQL("SELECT r.* FROM unnest(%s::text[]) AS c(id)", (ids,))
                rows = connections + SQL(" CROSS JOIN LATERAL (") + rows + SQL(") r")
            yield SQL("(") + rows + SQL(")")


@contextmanager
def time_limited_transaction(seconds: int) -> Iterator[None]:
    """Open a transaction whose statements, each and all together, have a time limit.

    PostgreSQL cancels a slow statement; after the limit, this module raises ``QueryTimeout`` before
    the next one. Zero means no limit, and a transaction that is open already keeps its own.
    """
    is_open = connection.in_atomic_block
    with transaction.atomic():
        if is_open or not seconds:
            yield
            return
        connection.ensure_connection()
        _run(f"BEGIN; SET LOCAL statement_timeout = {seconds * 1000}")
        deadline = _deadline.set(time.monotonic() + seconds)
        try:
            yield
        finally:
            _deadline.reset(deadline)


def _run(command: str) -> None:
    result = connection.connection.pgconn.exec_(command.encode())
    if result.status != pq.ExecStatus.COMMAND_OK:
        with connection.wrap_database_errors:
            raise psycopg.OperationalError(pq.error_message(result))


def _check_deadline() -> None:
    if time.monotonic() > _deadline.get():
        raise QueryTimeout


def fetch_all(statement: SQL) -> Sequence[tuple[Any, ...]]:
    """Return all rows of a statement that PostgreSQL plans for its values."""
    _check_deadline()
    with connection.cursor() as cursor:
        cursor.execute(statement.text, statement.values)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    return rows


def fetch_prepared(statement: SQL) -> Sequence[tuple[Any, ...]]:
    """Return all rows of a statement that is run again and again. Results are binary.

    The server receives values separately from the text, so that it can keep a plan where that costs
    no more than a plan for the values.
    """
    _check_deadline()
    connection.ensure_connection()
    with _raw_cursor() as cursor:
        cursor.execute(_number_placeholders(statement.text), statement.values)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    return rows


def fetch_together(*statements: SQL) -> list[Sequence[tuple[Any, ...]]]:
    """Return the rows of each statement of the open transaction, all run in one round trip.

    No statement sees the answer to another one, only its changes.
    """
    _check_deadline()
    cursors = [_raw_cursor() for _ in statements]
    with connection.wrap_database_errors, connection.connection.pipeline():
        for cursor, statement in zip(cursors, statements, strict=True):
            cursor.execute(_number_placeholders(statement.text), statement.values)
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def _raw_cursor() -> Any:
    raw: Any = psycopg.RawCursor(connection.connection)
    raw.format = psycopg.pq.Format.BINARY
    # connection.cursor() wraps its cursors in the same way; the debug cursor logs statements.
    wrap = connection.make_debug_cursor if connection.queries_logged else connection.make_cursor
    return wrap(raw)


@lru_cache(maxsize=256)
def _number_placeholders(text: str) -> str:
    """Replace ``%s`` with ``$1``, ``$2``, …. Cached, as parsing can take longer than the query."""
    first, *others = text.split("%s")
    return first + "".join(f"${number}{part}" for number, part in enumerate(others, start=1))


def select_owners(statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[str]:
    """Return the owner ids that a statement across owners selects: those whose work is due."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return [owner_id for (owner_id,) in cursor]
