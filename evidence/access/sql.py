"""Compose and run parameterized SQL over personal rows.

This is the only database cursor outside ``evidence.write``.
"""

import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import psycopg
from django.db import connection, transaction
from psycopg import pq

from evidence.access.scope import Only, TimeRange
from evidence.errors import QueryTimeout
from evidence.models.owners import current_owner

BLOB_TABLES = (
    "evidence_blob b JOIN evidence_record r ON r.owner_id = b.owner_id"
    " AND r.connection_id = b.connection_id"
    " AND r.stream = b.stream AND r.record_key = b.record_key"
)

ROW_COLUMNS = "r.connection_id, r.record_key, r.sort_key, r.emitted_at, r.field_emitted, r.data"
"""The columns of a page of records, without the one that keeps its plan from sorting."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBound(SQL):
    """A condition that compares a time field with an instant, by ``gte``, ``gt``, ``lte`` or ``lt``."""

    field: str
    operator: str
    instant: datetime


NO_SORT: Final = SQL("NULL::char(10485760)")
"""A null column that PostgreSQL estimates at 40 MB per row, so that a plan with a sort looks too
expensive. The planner then uses the index in the requested order, even with missing or outdated
statistics: without it a list of a grant with few records reads 4,050 rows in place of 200
(tests/access/test_plans.py)."""


def join_sql(separator: str, fragments: Iterable[SQL]) -> SQL:
    parts = list(fragments)
    values = tuple(value for part in parts for value in part.values)
    return SQL(separator.join(part.text for part in parts), values)


_PART = re.compile(r"\{(\w+)\}")


@lru_cache(maxsize=256)
def _split_template(template: str) -> tuple[list[tuple[str, str]], str, frozenset[str]]:
    """Return each part's name after the text before it, the text after the last part, and all names."""
    *pieces, end = _PART.split(template)
    names = pieces[1::2]
    return list(zip(pieces[::2], names, strict=True)), end, frozenset(names)


def fill(template: str, **parts: Any) -> SQL:
    """Return a statement with its named ``{parts}``: SQL as it is, any other value as a parameter.

    Raises ValueError for a part that is missing, or that the statement does not have.
    """
    texts: list[str] = []
    values: list[Any] = []
    pieces, end, names = _split_template(template)
    if parts.keys() != names:
        raise ValueError(f"not the parts of the statement: {sorted(names ^ parts.keys())}")
    for text, name in pieces:
        part = parts[name]
        if isinstance(part, SQL):
            texts += (text, part.text)
            values += part.values
        else:
            texts += (text, "%s")
            values.append(part)
    return SQL("".join((*texts, end)), tuple(values))


def union_all(branches: Iterable[SQL]) -> SQL:
    return join_sql(" UNION ALL ", branches)


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


ROWS: Final = """
FROM {table} WHERE r.owner_id = {owner} AND r.connection_id = {connection}{terms}"""
"""The visible rows of one connection."""
NAMED_ROWS: Final = """
FROM unnest({keys}::text[]) AS n(key){row} WHERE TRUE"""
"""The visible rows of one connection, where the grant names their keys."""
ROW_BY_KEY: Final = """
CROSS JOIN LATERAL (
    SELECT * FROM (
        SELECT *, {no_sort} FROM {table}
        WHERE r.owner_id = {owner} AND r.connection_id = {connection} AND r.stream = {stream}
            AND r.record_key BETWEEN {key} AND {key}
        ORDER BY r.record_key LIMIT 1
    ) r
    WHERE TRUE{terms}
) r"""
"""The visible row of a key, found by the primary key with any statistics: the key is a range and the order is by
key, so any other index would need a sort."""
FIRST_ROWS: Final = "SELECT {columns}{rows}{partition}{where} ORDER BY {order} LIMIT {limit}"
FIRST_ROWS_OF_EACH: Final = """
SELECT r.* FROM unnest({ids}::text[]) AS c(id) CROSS JOIN LATERAL ({rows}) r"""
ROW_COLUMNS_OF: Final = "SELECT {columns} FROM ({rows}) r"


@dataclass(frozen=True, slots=True)
class ConnectionGroup:
    """Connections that are read under the same condition."""

    stream: str
    connection_ids: list[str]
    condition: SQL
    record_keys: list[str] | None = None
    """The only keys that the terms allow, None if they allow every key."""
    time: TimeRange | None = None
    """The time range of the terms, which ``condition`` contains."""

    def rows(self, connection: SQL, table: str = "evidence_record r") -> SQL:
        """Return FROM and WHERE for the rows ``r`` of one connection; allowed keys are looked up."""
        if self.record_keys is not None:
            row = self.join_row(connection, "n.key", table)
            return fill(NAMED_ROWS, keys=self.record_keys, row=row)
        return fill(
            ROWS,
            table=SQL(table),
            owner=current_owner(),
            connection=connection,
            terms=self.condition,
        )

    def join_row(self, connection: SQL, key: str, table: str = "evidence_record r") -> SQL:
        """Return a join with the visible row ``r`` of a key."""
        return fill(
            ROW_BY_KEY,
            no_sort=NO_SORT,
            table=SQL(table),
            owner=current_owner(),
            connection=connection,
            stream=self.stream,
            key=SQL(key),
            terms=self.condition,
        )

    def first_rows(
        self,
        columns: SQL,
        partition: SortPartition,
        where: Sequence[SQL],
        *,
        limit: int,
        is_range: bool = False,
    ) -> Iterator[SQL]:
        """Yield subqueries for the first rows of each connection, in the order of the partition.

        With ``is_range``, ``where`` is a range of that order, and the index in this order reads it:
        the plan takes the range and the grant's times for independent, so it expects few rows, and
        might read and sort 445 of a month for a page of 20 (tests/access/test_plans.py).
        """
        if is_range:
            columns += SQL(", ") + NO_SORT
        ids = self.connection_ids
        is_lateral = not 1 <= len(ids) <= MAX_NAMED_CONNECTIONS
        for value in [SQL("c.id")] if is_lateral else [SQL("%s", (id_,)) for id_ in ids]:
            rows = fill(
                FIRST_ROWS,
                columns=columns,
                rows=self.rows(value),
                partition=partition.condition,
                where=join_sql("", where),
                order=partition.order,
                limit=limit,
            )
            if is_lateral:
                rows = fill(FIRST_ROWS_OF_EACH, ids=ids, rows=rows)
            if is_range:
                rows = fill(ROW_COLUMNS_OF, columns=SQL(ROW_COLUMNS), rows=rows)
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
    with connection.wrap_database_errors:
        result = connection.connection.pgconn.exec_(command.encode())
        if result.status != pq.ExecStatus.COMMAND_OK:
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
