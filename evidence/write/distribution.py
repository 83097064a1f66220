"""Place the tables of personal rows on the nodes of a Citus cluster, by connection.

deploy/citus/README.md gives the reason for each table. Rows of one connection lie on one node, in shards
that move together. All other tables stay on the coordinator, so that their foreign keys, triggers
and unique keys work as on one server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

DISTRIBUTED_TABLES = (
    "evidence_record",
    "evidence_recordchange",
    "evidence_searchtext",
    "people_mention",
    "evidence_blob",
    "evidence_blobchunk",
    "evidence_suppression",
    "evidence_pseudonym",
    "evidence_passage",
)
"""Tables of personal rows. The last one exists only with pgvector."""

MIN_CITUS = (13, 0)

CITUS_VERSION = "SELECT max(extversion) FROM pg_extension WHERE extname = 'citus'"
SETTINGS = "SELECT current_setting('plan_cache_mode'), current_database()"
NODES = """
-- Count the nodes that can store shards, and those that cannot commit on several nodes at once.
SELECT count(*), count(*) FILTER (WHERE NOT success OR result::int = 0)
FROM run_command_on_all_nodes('SHOW max_prepared_transactions')
WHERE nodeid IN (SELECT nodeid FROM pg_dist_node WHERE shouldhaveshards AND isactive)
"""
PLACEMENTS = """
-- List the tables that exist, and whether each is distributed. Parameters: names.
SELECT c.relname, p.logicalrelid IS NOT NULL
FROM unnest(%s::text[]) WITH ORDINALITY AS n(name, place)
JOIN pg_class c ON c.oid = to_regclass(n.name)
LEFT JOIN pg_dist_partition p ON p.logicalrelid = c.oid AND p.partmethod = 'h'
ORDER BY n.place
"""
IS_DISTRIBUTED = "SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL"
DISTRIBUTE = """
-- Parameters: the table, the table with which it shares its shards or 'none', the number of shards.
SELECT create_distributed_table(
    %s, 'connection_id', colocate_with => %s, shard_count => %s)
"""
REMOVE_LOCAL_ROWS = "SELECT truncate_local_data_after_distributing_table(%s)"
UNDISTRIBUTE = "SELECT undistribute_table(%s)"
DATABASE_SETTINGS = {
    # A request reads and writes a few connections: one after the other in one transaction, so that
    # it always sees its own writes.
    "citus.multi_shard_modify_mode": "sequential",
    "citus.max_adaptive_executor_pool_size": "1",
}


class ClusterError(Exception):
    """The database cannot be distributed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A table of personal rows, and whether its rows are on the nodes."""

    table: str
    is_distributed: bool


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
    [(plan_cache_mode, _)] = _query(SETTINGS)
    if plan_cache_mode == "force_generic_plan":
        raise ClusterError("Citus cannot run generic plans only. Set PDPP_DISTRIBUTED=true first.")
    [(nodes, unprepared)] = _query(NODES)
    if not nodes:
        raise ClusterError("No node can store rows. Add workers with citus_add_node.")
    if unprepared:
        raise ClusterError(
            f"{unprepared} nodes cannot commit together. Set max_prepared_transactions to the value"
            " of max_connections or more."
        )


def placements() -> list[Placement]:
    """Return the tables of personal rows that exist. Requires Citus."""
    return [Placement(*row) for row in _query(PLACEMENTS, [list(DISTRIBUTED_TABLES)])]


@transaction.atomic
def distribute(*, shards: int) -> None:
    """Distribute the tables that are not yet distributed, and save the settings of the database."""
    [(_, database)] = _query(SETTINGS)
    with connection.cursor() as cursor:
        for name, value in DATABASE_SETTINGS.items():
            cursor.execute(f"SET LOCAL {name} = '{value}'")
            quoted = connection.ops.quote_name(database)
            cursor.execute(f"ALTER DATABASE {quoted} SET {name} = '{value}'")
    for placement in placements():
        if not placement.is_distributed:
            _distribute(placement.table, shards)


def distribute_if_others_are(table: str) -> None:
    """Distribute a table that was created now, if this database is distributed."""
    if not _query(IS_DISTRIBUTED)[0][0]:
        return
    if any(placement.is_distributed for placement in placements()):
        _distribute(table, shards=0)


def _distribute(table: str, shards: int) -> None:
    first = DISTRIBUTED_TABLES[0]
    if table == first:
        _query(DISTRIBUTE, [table, "none", shards])
    else:
        _query(DISTRIBUTE, [table, first, None])
    _query(REMOVE_LOCAL_ROWS, [table])


@transaction.atomic
def undistribute() -> None:
    """Bring the rows of every distributed table back to the coordinator."""
    [(_, database)] = _query(SETTINGS)
    with connection.cursor() as cursor:
        for name, value in DATABASE_SETTINGS.items():
            cursor.execute(f"SET LOCAL {name} = '{value}'")
    for placement in placements():
        if placement.is_distributed:
            _query(UNDISTRIBUTE, [placement.table])
    with connection.cursor() as cursor:
        for name in DATABASE_SETTINGS:
            quoted = connection.ops.quote_name(database)
            cursor.execute(f"ALTER DATABASE {quoted} RESET {name}")


def _query(
    statement: str, values: Sequence[str | int | list[str] | None] = ()
) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())
