"""Dump and load tables with COPY, from one snapshot.

Uses the text format of COPY under settings that every PostgreSQL since 15 shares, so that a newer
server can load a dump. Excludes derived data, sign-in sessions and pending requests.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import DatabaseError, connection, transaction
from psycopg import sql

EXCLUDED_TABLES = frozenset(
    {
        "django_migrations",  # the manifest lists them
        "django_session",
        "oauth_authorizationcode",
        "evidence_embeddedstream",
        "people_mention",
        "evidence_passage",
        "oauth_pendingrequest",
        "people_peopleprogress",
        "people_personcount",
        "owner_setuplink",
        # The job queue, which is filled again from evidence_event.
        "procrastinate_events",
        "procrastinate_jobs",
        "procrastinate_periodic_defers",
        "procrastinate_workers",
    }
)
PORTABLE_SETTINGS = (
    "SET LOCAL datestyle TO 'ISO, YMD'; SET LOCAL timezone TO 'UTC'; SET LOCAL intervalstyle TO"
    " 'postgres'; SET LOCAL extra_float_digits TO 3; SET LOCAL bytea_output TO 'hex';"
    " SET LOCAL client_encoding TO 'UTF8'; SET LOCAL statement_timeout TO 0"
)
LIST_TABLES = """
SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
GROUP BY c.relname ORDER BY c.relname
"""
BATCH_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Table:
    """A table and its columns."""

    name: str
    columns: tuple[str, ...]

    @property
    def column_list(self) -> sql.Composed:
        return sql.SQL(", ").join(map(sql.Identifier, self.columns))


@contextmanager
def snapshot() -> Iterator[None]:
    """Open a read-only transaction that sees the database as it is now.

    Call it outside of any other transaction.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute(PORTABLE_SETTINGS)
        yield


def tables() -> list[Table]:
    """Return all tables of the schema by name."""
    with connection.cursor() as cursor:
        cursor.execute(LIST_TABLES)
        return [Table(name, tuple(columns)) for name, columns in cursor]


def backup_tables() -> list[Table]:
    """Return the tables that a backup contains."""
    return [table for table in tables() if table.name not in EXCLUDED_TABLES]


def dump_rows(table: Table) -> Generator[tuple[bytes, int], None, None]:
    """Yield batches of complete rows in COPY format with their row count, in constant memory."""
    statement = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(
        table.column_list, sql.Identifier(table.name)
    )
    batch, count = bytearray(), 0
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in copy:
            batch += row
            count += 1
            if len(batch) >= BATCH_BYTES:
                yield bytes(batch), count
                batch, count = bytearray(), 0
    if count:
        yield bytes(batch), count


def server_version() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        return int(cursor.fetchone()[0])


RESTORE_LOCK = 7_310_551_903
"""Key of the advisory lock that a restore holds."""
# Tables with rows after migration or after the first start of a server.
INITIAL_TABLES = frozenset(
    {
        "auth_permission",
        "django_content_type",
        "django_migrations",
        "django_session",
        "evidence_owner",
        "owner_setuplink",
    }
)
LIST_SEQUENCES = """
SELECT c.relname, a.attname, pg_get_serial_sequence(quote_ident(c.relname), a.attname)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
    AND pg_get_serial_sequence(quote_ident(c.relname), a.attname) IS NOT NULL
"""


@contextmanager
def restore_transaction() -> Iterator[bool]:
    """Open the transaction of a restore. Yields False if another restore is running."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(PORTABLE_SETTINGS)
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [RESTORE_LOCK])
        yield cursor.fetchone()[0]


def non_empty_tables() -> list[str]:
    """Return the tables with rows that a new database does not have."""
    names = []
    with connection.cursor() as cursor:
        for table in tables():
            if table.name not in INITIAL_TABLES:
                statement = sql.SQL("SELECT EXISTS (SELECT 1 FROM {})")
                cursor.execute(statement.format(sql.Identifier(table.name)))
                if cursor.fetchone()[0]:
                    names.append(table.name)
    return names


def truncate_tables() -> None:
    """Empty every table except that of the migrations, and lock them until the transaction ends."""
    names = [sql.Identifier(table.name) for table in tables() if table.name != "django_migrations"]
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(names)))
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def load_rows(table: Table, batches: Iterable[bytes]) -> int:
    """Load rows into an empty table and return their number."""
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table.name), table.column_list
    )
    with connection.wrap_database_errors, connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for batch in batches:
                copy.write(batch)
        return int(cursor.rowcount)


def reset_sequences() -> None:
    """Set every sequence to at least the highest value in its column, and check the foreign keys.

    Never sets a sequence back, so a number names one row forever. Raises DatabaseError.
    """
    with connection.cursor() as cursor:
        cursor.execute(LIST_SEQUENCES)
        for table, column, sequence in cursor.fetchall():
            statement = sql.SQL(
                "SELECT setval({}::regclass, greatest(max({}), nextval({}::regclass))) FROM {}"
            ).format(
                sql.Literal(sequence), sql.Identifier(column), sql.Literal(sequence),
                sql.Identifier(table),
            )  # fmt: skip
            cursor.execute(statement)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def has_table(table: Table) -> bool:
    """Return whether this database has the table with all columns, and backups include it."""
    if table.name in EXCLUDED_TABLES:
        return False
    return any(
        existing.name == table.name and set(table.columns) <= set(existing.columns)
        for existing in tables()
    )


def analyze() -> None:
    """Collect planner statistics, which a load leaves out of date."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def error_code(error: DatabaseError) -> str:
    """Return the SQLSTATE of an error, or its class, because its text may quote a record."""
    return getattr(error.__cause__, "sqlstate", None) or type(error).__name__
