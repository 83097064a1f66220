"""Every table as COPY writes it, all of one moment, while others go on writing.

The form is COPY's own text under settings that every PostgreSQL since 15 shares, so that what one
wrote another reads. Left out is what follows from the rest, what is signed in now, and what waits
for an answer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection, transaction
from psycopg import sql

LEFT_OUT = frozenset(
    {
        "django_migrations",  # told apart
        "django_session",
        "evidence_authorizationcode",
        "evidence_embeddedstream",
        "evidence_passage",
        "evidence_pendingrequest",
        "evidence_setuplink",
        # The queue: what has to be delivered stands in evidence_event, and is queued anew.
        "procrastinate_events",
        "procrastinate_jobs",
        "procrastinate_periodic_defers",
        "procrastinate_workers",
    }
)
PLAIN = (
    "SET LOCAL datestyle TO 'ISO, YMD'; SET LOCAL timezone TO 'UTC'; SET LOCAL intervalstyle TO"
    " 'postgres'; SET LOCAL extra_float_digits TO 3; SET LOCAL bytea_output TO 'hex';"
    " SET LOCAL client_encoding TO 'UTF8'; SET LOCAL statement_timeout TO 0"
)
TABLES = """
SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
GROUP BY c.relname ORDER BY c.relname
"""
BYTES_AT_ONCE = 256 * 1024


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[str, ...]

    @property
    def names(self) -> sql.Composed:
        return sql.SQL(", ").join(map(sql.Identifier, self.columns))


@contextmanager
def one_moment() -> Iterator[None]:
    """A transaction that sees the database as it is now, whatever is written meanwhile, and writes
    nothing. Outside of any other."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute(PLAIN)
        yield


def tables() -> list[Table]:
    """All that there are, by name."""
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        return [Table(name, tuple(columns)) for name, columns in cursor]


def kept_tables() -> list[Table]:
    return [table for table in tables() if table.name not in LEFT_OUT]


def rows_of(table: Table) -> Iterator[tuple[bytes, int]]:
    """The rows of a table in pieces of whole rows, and how many each has; in constant memory."""
    statement = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(
        table.names, sql.Identifier(table.name)
    )
    piece, count = bytearray(), 0
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in copy:
            piece += row
            count += 1
            if len(piece) >= BYTES_AT_ONCE:
                yield bytes(piece), count
                piece, count = bytearray(), 0
    if count:
        yield bytes(piece), count


def server_version() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        return int(cursor.fetchone()[0])
