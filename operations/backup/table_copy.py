"""Dump and load tables with COPY, from one snapshot.

Uses the text format of COPY under settings that every PostgreSQL since 15 shares, so that a newer
server can load a dump. Excludes derived data, sign-in sessions and pending requests.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection, transaction
from psycopg import sql

from operations.backup.keys import BackupError

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
        "operations_job",  # when this server runs its jobs
    }
)
OWNER_COLUMN = "owner_id"
OWNER_TABLE = "evidence_owner"
KEPT_COLUMNS = frozenset({"user_id", "is_administrator", "disk_limit_bytes", "removed_at"})
"""What an installation decides about an owner: a backup of the owner's rows does not contain it."""
ADDED_ONLY = {
    "evidence_disclosure": "evidence_disclosure_added_only",
    "evidence_checkpoint": "evidence_checkpoint_added_only",
}
"""Triggers that keep the ledger from being changed, by table."""
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
BATCH_BYTES = 1024 * 1024


class ForeignRowsError(BackupError):
    """The backup has rows of another owner than it names. Nothing was restored."""


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


def backup_tables(owner_id: str | None = None) -> list[Table]:
    """Return the tables that a backup contains, or those that one of an owner's rows contains."""
    stored = [table for table in tables() if table.name not in EXCLUDED_TABLES]
    if owner_id is None:
        return stored
    return [
        Table(table.name, tuple(name for name in table.columns if name not in KEPT_COLUMNS))
        if table.name == OWNER_TABLE
        else table
        for table in stored
        if OWNER_COLUMN in table.columns
    ]


def dump_rows(
    table: Table, owner_id: str | None = None
) -> Generator[tuple[bytes, int], None, None]:
    """Yield batches of complete rows in COPY format with their row count, in constant memory.

    With an owner, only the rows of that one.
    """
    is_theirs = sql.SQL(" WHERE owner_id = {}").format(sql.Literal(owner_id))
    statement = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT").format(
        table.column_list,
        sql.Identifier(table.name),
        sql.SQL("") if owner_id is None else is_theirs,
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


def load_own_rows(table: Table, batches: Iterable[bytes], owner_id: str) -> int:
    """Load rows beside those of other owners, and return their number.

    The owner's own row stays if there is one. Raises ``ForeignRowsError``.
    """
    name, draft = sql.Identifier(table.name), sql.Identifier("restored_rows")
    columns = table.column_list
    with connection.cursor() as cursor:
        create = sql.SQL("CREATE TEMPORARY TABLE {} AS SELECT {} FROM {} WITH NO DATA")
        cursor.execute(create.format(draft, columns, name))
        rows = load_rows(Table("restored_rows", table.columns), batches)
        foreign = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE owner_id IS DISTINCT FROM {})")
        cursor.execute(foreign.format(draft, sql.Literal(owner_id)))
        if cursor.fetchone()[0]:
            raise ForeignRowsError
        insert = sql.SQL("INSERT INTO {0} ({1}) SELECT {1} FROM {2}{3}")
        known = sql.SQL(" ON CONFLICT (owner_id) DO NOTHING" if table.name == OWNER_TABLE else "")
        cursor.execute(insert.format(name, columns, draft, known))
        cursor.execute(sql.SQL("DROP TABLE {}").format(draft))
    return rows


def has_rows_of(owner_id: str) -> bool:
    """Return whether an owner has anything but their own row."""
    exists = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE owner_id = {})")
    with connection.cursor() as cursor:
        for table in _tables_of_owners():
            cursor.execute(exists.format(sql.Identifier(table.name), sql.Literal(owner_id)))
            if cursor.fetchone()[0]:
                return True
    return False


def delete_rows_of(owner_id: str) -> None:
    """Delete everything of an owner but their own row, with what is derived from it, and the ledger."""
    delete = sql.SQL("DELETE FROM {} WHERE owner_id = {}")
    switch = sql.SQL("ALTER TABLE {} {} TRIGGER {}")
    with connection.cursor() as cursor:
        for table in _tables_of_owners():
            name, trigger = sql.Identifier(table.name), ADDED_ONLY.get(table.name)
            if trigger is not None:
                cursor.execute(switch.format(name, sql.SQL("DISABLE"), sql.Identifier(trigger)))
            cursor.execute(delete.format(name, sql.Literal(owner_id)))
            if trigger is not None:
                cursor.execute(switch.format(name, sql.SQL("ENABLE"), sql.Identifier(trigger)))


def defer_constraints() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def _tables_of_owners() -> list[Table]:
    return [
        table
        for table in tables()
        if OWNER_COLUMN in table.columns and table.name not in {OWNER_TABLE, "owner_setuplink"}
    ]


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
