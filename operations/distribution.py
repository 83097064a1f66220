"""Place the rows of owners on the nodes of a Citus cluster, all rows of one owner on one node.

Every key begins with the owner and every statement names one, so Citus sends each statement whole to
the node of its owner, and nothing else in this project knows of nodes. The directory of owners and the
registrations of apps are small and referred to from everywhere: each node has a copy of them. What belongs
to no owner (sessions, sign-in, jobs) stays on the coordinator.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import connection, transaction

from evidence.models.owners import Owned, across_owners
from evidence.search.embedding import configured_embedder
from evidence.write.vectors import prepare_table

EVERYWHERE = ("evidence_owner", "oauth_registration")
"""Tables of which each node has a copy."""
FIRST = "evidence_connection"
"""The table whose shards decide where those of all others lie."""
MIN_CITUS = (13, 0)

CITUS_VERSION = "SELECT max(extversion) FROM pg_extension WHERE extname = 'citus'"
NODES = """
-- Count the nodes that can store shards, and those that cannot commit on several nodes at once.
SELECT count(*), count(*) FILTER (WHERE NOT success OR result::int = 0)
FROM run_command_on_all_nodes('SHOW max_prepared_transactions')
WHERE nodeid IN (SELECT nodeid FROM pg_dist_node WHERE shouldhaveshards AND isactive)
"""
PLACEMENTS = """
-- List the tables that exist, and whether each is placed. Parameters: names.
SELECT c.relname, p.logicalrelid IS NOT NULL
FROM unnest(%s::text[]) WITH ORDINALITY AS n(name, place)
JOIN pg_class c ON c.oid = to_regclass(n.name)
LEFT JOIN pg_dist_partition p ON p.logicalrelid = c.oid AND p.partmethod IN ('h', 'n')
    AND p.repmodel <> 'c'
ORDER BY n.place
"""
REFERENCES = """
-- List the foreign keys of some tables, to be made again once all of them are placed. Parameters: names.
SELECT f.conrelid::regclass::text, f.conname, pg_get_constraintdef(f.oid)
FROM pg_constraint f WHERE f.contype = 'f' AND f.conparentid = 0
    AND (f.conrelid::regclass::text = ANY(%s) OR f.confrelid::regclass::text = ANY(%s))
ORDER BY 1, 2
"""
HAS_WAKE_TRIGGER = """
SELECT EXISTS (SELECT FROM pg_trigger WHERE tgname = 'wake_jobs' AND tgrelid = %s::regclass)
"""
DISTRIBUTE = """
-- Parameters: the table, the table with which it shares its shards or 'none', the number of shards.
SELECT create_distributed_table(%s, 'owner_id', colocate_with => %s, shard_count => %s)
"""
COPY_EVERYWHERE = "SELECT create_reference_table(%s)"
REMOVE_LOCAL_ROWS = "SELECT truncate_local_data_after_distributing_table(%s)"
IDENTITIES = """
-- List the generated columns of some tables. Parameters: names.
SELECT attrelid::regclass::text, attname FROM pg_attribute
WHERE attidentity = 'd' AND attrelid::regclass::text = ANY(%s)
"""
UNDISTRIBUTE = "SELECT undistribute_table(%s)"
DATABASE_SETTINGS = {
    # A request works for one owner, so for one node; jobs that look for work ask all nodes in turn.
    "citus.multi_shard_modify_mode": "sequential",
    "citus.max_adaptive_executor_pool_size": "1",
    # Triggers refuse changes of grants and of the ledger in the row's own shard.
    "citus.enable_unsafe_triggers": "on",
}


class ClusterError(Exception):
    """The database cannot be distributed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A table, whether every node has a copy of it, and whether that is done already."""

    table: str
    is_everywhere: bool
    is_placed: bool


def check_cluster() -> None:
    """Raise ``ClusterError`` unless this database can be distributed."""
    version = _query(CITUS_VERSION)[0][0]
    if version is None:
        raise ClusterError(
            "This database has no Citus. Run CREATE EXTENSION citus on every node, and"
            " citus_add_node for each worker (deploy/citus/README.md)."
        )
    if tuple(int(part) for part in version.split("-")[0].split(".")) < MIN_CITUS:
        raise ClusterError(f"Citus {version} is too old. Install 13.0 or later.")
    [(nodes, unprepared)] = _query(NODES)
    if not nodes:
        raise ClusterError("No node can store rows. Add workers with citus_add_node.")
    if unprepared:
        raise ClusterError(
            f"{unprepared} nodes cannot commit together. Set max_prepared_transactions to the value"
            " of max_connections or more."
        )


def placements() -> list[Placement]:
    """Return the tables that have a place on the nodes, in the order of their placement."""
    owned = {model._meta.db_table for model in apps.get_models() if issubclass(model, Owned)}  # noqa: SLF001
    names = [*EVERYWHERE, FIRST, *sorted(owned - {FIRST}), "evidence_passage"]
    rows = _query(PLACEMENTS, [names])
    return [Placement(table, table in EVERYWHERE, is_placed) for table, is_placed in rows]


@transaction.atomic
def distribute(*, shards: int) -> None:
    """Place the tables that are not yet placed, and save the settings of the database.

    The table of vectors of a new model is made first, so that it has a place before its first row.
    """
    if (embedder := configured_embedder()) is not None:
        prepare_table(embedder)
    for name, value in DATABASE_SETTINGS.items():
        _run(f"SET LOCAL {name} = '{value}'")
        _run(f"ALTER DATABASE {_database()} SET {name} = '{value}'")
    waiting = [placement for placement in placements() if not placement.is_placed]
    with _without_references([placement.table for placement in waiting]):
        for placement in waiting:
            # A notification on another node reaches no listener, and PREPARE TRANSACTION refuses it.
            _set_wake_trigger(placement.table, "DISABLE")
            if placement.is_everywhere:
                _query(COPY_EVERYWHERE, [placement.table])
            else:
                is_first = placement.table == FIRST
                values = [
                    placement.table,
                    "none" if is_first else FIRST,
                    shards if is_first else None,
                ]
                _query(DISTRIBUTE, values)
            _query(REMOVE_LOCAL_ROWS, [placement.table])


@across_owners()
@transaction.atomic
def undistribute() -> None:
    """Bring every row back to the coordinator."""
    for name, value in DATABASE_SETTINGS.items():
        _run(f"SET LOCAL {name} = '{value}'")
    placed = [placement.table for placement in placements() if placement.is_placed]
    with _without_references(placed), _without_identities(placed):
        for table in reversed(placed):
            _query(UNDISTRIBUTE, [table])
            _set_wake_trigger(table, "ENABLE")
    for name in DATABASE_SETTINGS:
        _run(f"ALTER DATABASE {_database()} RESET {name}")


@contextmanager
def _without_references(tables: list[str]) -> Iterator[None]:
    """Drop the foreign keys of some tables, which refer to each other in circles, and make them again."""
    references = _query(REFERENCES, [tables, tables])
    for table, name, _ in references:
        _run(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
    yield
    for table, name, definition in references:
        _run(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {definition}')


@contextmanager
def _without_identities(tables: list[str]) -> Iterator[None]:
    """Let columns generate no values, since Citus brings back no table with such a column, and begin again."""
    identities = _query(IDENTITIES, [tables])
    _run("SET LOCAL citus.enable_ddl_propagation = off")
    for table, column in identities:
        _run(f'ALTER TABLE {table} ALTER COLUMN "{column}" DROP IDENTITY')
    _run("SET LOCAL citus.enable_ddl_propagation = on")
    yield
    for table, column in identities:
        _run(f'ALTER TABLE {table} ALTER COLUMN "{column}" ADD GENERATED BY DEFAULT AS IDENTITY')
        _run(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), max(\"{column}\"))"  # noqa: S608
            f" FROM {table}"
        )


def _set_wake_trigger(table: str, state: str) -> None:
    """Enable or disable the notification of background jobs by a table, if it has one."""
    if _query(HAS_WAKE_TRIGGER, [table])[0][0]:
        _run(f"ALTER TABLE {table} {state} TRIGGER wake_jobs")


def _database() -> str:
    return connection.ops.quote_name(str(_query("SELECT current_database()")[0][0]))


def _run(command: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(command)


def _query(
    statement: str, values: Sequence[str | int | list[str] | None] = ()
) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
