"""Whether this installation can serve: the database answers, and its tables are today's."""

from django.conf import settings
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from pdpp_site import turns

NOBODY = "This server leaves the work beside requests to others, and no other does it just now."


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


def idle() -> str | None:
    """What nobody does although it should be done, or None. A query where this process leaves it to
    others, else none."""
    if settings.PDPP_BACKGROUND:
        return None
    try:
        return None if turns.is_taken(turns.BACKGROUND) else NOBODY
    except Error:
        return None  # which then is all that is known
    finally:
        connection.close()
