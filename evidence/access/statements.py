"""Joining and running statements over personal rows: the only cursor outside ``storing``."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

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
    """All rows of one statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement.text, statement.values)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    return rows
