"""Every table as COPY writes it, all of one moment, while others go on writing.

The form is COPY's own text under settings that every PostgreSQL since 15 shares, so that what one
wrote another reads. Left out is what follows from the rest, what is signed in now, and what waits
for an answer.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import DatabaseError, connection, transaction
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


LOADING = 7_310_551_903
"""The advisory lock of whoever fills a database."""
# What a database that was only migrated, or whose server has started once, may hold.
OF_A_NEW_DATABASE = frozenset(
    {
        "auth_permission",
        "django_content_type",
        "django_migrations",
        "django_session",
        "evidence_owner",
        "evidence_setuplink",
    }
)
COUNTED_COLUMNS = """
SELECT c.relname, a.attname, pg_get_serial_sequence(quote_ident(c.relname), a.attname)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
    AND pg_get_serial_sequence(quote_ident(c.relname), a.attname) IS NOT NULL
"""


@contextmanager
def alone() -> Iterator[bool]:
    """A transaction in which to load; whether nobody else is loading."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(PLAIN)
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOADING])
        yield cursor.fetchone()[0]


def occupied() -> list[str]:
    """The tables that hold something although nothing was ever done with the database."""
    found = []
    with connection.cursor() as cursor:
        for table in tables():
            if table.name not in OF_A_NEW_DATABASE:
                statement = sql.SQL("SELECT EXISTS (SELECT FROM {})")
                cursor.execute(statement.format(sql.Identifier(table.name)))
                if cursor.fetchone()[0]:
                    found.append(table.name)
    return found


def make_room() -> None:
    """Empties every table but that of the migrations; nobody else reads until the end."""
    every = [sql.Identifier(each.name) for each in tables() if each.name != "django_migrations"]
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(every)))
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def fill(table: Table, pieces: Iterable[bytes]) -> int:
    """Puts rows into an empty table; how many it then has."""
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table.name), table.names)
    with connection.wrap_database_errors, connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for piece in pieces:
                copy.write(piece)
        return int(cursor.rowcount)


def go_on_counting() -> None:
    """Lets every sequence go on after the highest number that is there; refers to each other are
    checked, too. Raises ``DatabaseError``."""
    with connection.cursor() as cursor:
        cursor.execute(COUNTED_COLUMNS)
        for table, column, sequence in cursor.fetchall():
            statement = sql.SQL(
                "SELECT setval({}::regclass, coalesce(max({}), 1), max({}) IS NOT NULL) FROM {}"
            ).format(
                sql.Literal(sequence), sql.Identifier(column), sql.Identifier(column),
                sql.Identifier(table),
            )  # fmt: skip
            cursor.execute(statement)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def is_known(table: Table) -> bool:
    """Whether this database has such a table, for a backup to fill."""
    if table.name in LEFT_OUT:
        return False
    return any(
        each.name == table.name and set(table.columns) <= set(each.columns) for each in tables()
    )


def look_around() -> None:
    """Gathers the statistics by which searches are planned."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def failed(error: DatabaseError) -> str:
    """Its kind alone: the text may quote a record."""
    return getattr(error.__cause__, "sqlstate", None) or type(error).__name__
