"""Tell whether this version can serve its database, and warn of background jobs that wait or fail."""

import contextlib
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from django.apps import apps
from django.core.management import call_command
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from evidence import advisory_locks
from evidence.models.owners import Owned
from operations import jobs

JOBS_WAIT = (
    "Background jobs have been waiting since {since:%Y-%m-%d %H:%M} UTC. Keep one server running"
    " without PDPP_BACKGROUND=false; if one runs, its log shows what fails."
)
STALLED_AFTER = timedelta(minutes=10)
"""Time for which a job may wait or fail before health reports it."""


def background_warning(now: datetime) -> str | None:
    """Return a public warning about background jobs, or None, and release the connection."""
    try:
        return jobs_warning(now)
    except (Error, OSError):
        return None  # schema_version.not_ready_reason reports a failing database
    finally:
        connection.close()


def jobs_warning(now: datetime) -> str | None:
    """Return a warning about background jobs, or None. One query."""
    since = jobs.waiting_since(now)
    return JOBS_WAIT.format(since=since) if since and now - since > STALLED_AFTER else None


Migration = tuple[str, str]

WITHOUT_OWNERS = """
-- List the tables that exist and have no owners. Parameters: names.
SELECT c.relname FROM pg_class AS c
WHERE c.oid IN (SELECT to_regclass(name) FROM unnest(%s::text[]) AS n(name)) AND NOT EXISTS (
    SELECT FROM pg_attribute AS a
    WHERE a.attrelid = c.oid AND a.attname = 'owner_id' AND NOT a.attisdropped
)
ORDER BY c.relname
"""


def applied_migrations() -> frozenset[Migration]:
    """Return the migrations applied to the database; empty for a new database."""
    return frozenset(MigrationRecorder(connection).applied_migrations())


def known_migrations() -> frozenset[Migration]:
    return frozenset(MigrationLoader(connection).disk_migrations)


def not_ready_reason() -> str | None:
    """Return why the server cannot serve requests, or None. Two queries; returns its connection.

    The reason is public, so it names no host, user or table.
    """
    try:
        pending = count_pending_migrations()
    except Error:
        return "The database does not respond."
    finally:
        connection.close()
    return f"{pending} migrations are pending." if pending else None


def count_pending_migrations() -> int:
    """Return how many migrations of this version the database lacks. Raises ``Error``."""
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def unknown_migrations() -> list[Migration]:
    """Return the migrations of the database that this version does not ship, in apps that it has.

    They are those of a later version, or of a state that was never released. Two queries at most.
    """
    loader = MigrationLoader(connection)
    return sorted(
        (app, name)
        for app, name in loader.applied_migrations
        if app in loader.migrated_apps and (app, name) not in loader.disk_migrations
    )


def tables_without_owners() -> list[str]:
    """Return the tables of owners' rows that name no owner. One query.

    There are some in a database from before 0.1.0, whose migrations had the names of today's.
    """
    owned = [model._meta.db_table for model in apps.get_models() if issubclass(model, Owned)]  # noqa: SLF001
    with connection.cursor() as cursor:
        cursor.execute(WITHOUT_OWNERS, [owned])
        return [table for (table,) in cursor]


def migrate_to(target: Collection[Migration]) -> None:
    """Migrate a new or older database to exactly this state."""
    for app, name in _last_migrations(target):
        call_command("migrate", app, name, verbosity=0, interactive=False)


def migrate_to_latest() -> None:
    """Migrate the database to the state of this version."""
    call_command("migrate", verbosity=0, interactive=False)


def _last_migrations(target: Collection[Migration]) -> Iterator[Migration]:
    """Yield the last target migration of each app."""
    nodes = MigrationLoader(connection).graph.node_map
    for node in sorted(target):
        children = {child.key for child in nodes[node].children if child.key[0] == node[0]}
        if children.isdisjoint(target):
            yield node


@contextlib.contextmanager
def migrate_once() -> Iterator[None]:
    """Migrate if necessary, then run the block while no other process starts."""
    with advisory_locks.exclusive("starting"):
        if not_ready_reason() is not None:
            migrate_to_latest()
        yield
