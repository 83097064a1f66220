"""Whether this installation can serve: the database answers, and its tables are today's."""

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor


def unready() -> str | None:
    """Why requests cannot be served now, or None. Two queries; opens a connection and returns it.

    The reason is public, so it names no host, user or table.
    """
    try:
        executor = MigrationExecutor(connection)
        behind = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except Error:
        return "The database does not answer."
    finally:
        connection.close()
    return f"{len(behind)} migrations have not been applied." if behind else None
