"""Joining and running statements over personal rows: the only cursor outside ``storing``."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import psycopg
from django.db import connection

from evidence.access.scope import TimeRange


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


def fetched(statement: Fragment) -> Sequence[tuple[Any, ...]]:
    """All rows of one statement, planned for its values."""
    with connection.cursor() as cursor:
        cursor.execute(statement.text, statement.values)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    return rows


def fetched_by_one_plan(statement: Fragment) -> Sequence[tuple[Any, ...]]:
    """All rows of a statement whose best plan is the same whatever its values.

    The values travel apart from the text, so the server plans it once a connection and not once a
    request; over partitioned tables that is most of its work. Answers come in binary.
    """
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
