"""What is arranged once and there for every test: rows as they are copied, objects as pickled."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db import connection, transaction

Cast = TypeVar("Cast")
COLUMNS = """
SELECT c.oid::regclass::text, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
GROUP BY c.oid ORDER BY c.oid
"""


@dataclass(frozen=True)
class Arranged(Generic[Cast]):
    """Rows of tables that were empty, and what the function that wrote them gave back."""

    rows: dict[str, bytes]
    cast: bytes

    @classmethod
    def by(cls, arrange: Callable[[], Cast]) -> "Arranged[Cast]":
        """What it has written is taken and undone; it may not touch a table that is in use."""
        with transaction.atomic():
            before = _copied()
            cast = pickle.dumps(arrange())
            after = _copied()
            transaction.set_rollback(True)
        touched = {table for table, rows in before.items() if rows and rows != after[table]}
        assert not touched, touched
        written = {table: rows for table, rows in after.items() if rows and not before[table]}
        return cls(written, cast)

    def again(self) -> Cast:
        """The rows are in the transaction of the test, and end with it, where it has one."""
        with transaction.atomic(), connection.cursor() as cursor:
            for table, rows in self.rows.items():
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    copy.write(rows)
        cast: Cast = pickle.loads(self.cast)  # noqa: S301 - our own, of a moment ago
        return cast


def _copied() -> dict[str, bytes]:
    """The rows of every table, under its name and columns."""
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS)
        return {table: _rows(table) for table in [f"{of} ({names})" for of, names in cursor]}


def _rows(table: str) -> bytes:
    name, columns = table.removesuffix(")").split(" (")
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY (SELECT {columns} FROM {name}) TO STDOUT") as copy,  # noqa: S608 - as the catalogue quotes them
    ):
        return b"".join(copy)
