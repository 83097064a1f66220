"""Which migrations a database has, which this program knows, and going from one state to another."""

import contextlib
from collections.abc import Collection, Iterator

from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from evidence import advisory_locks
from operations import health

Migration = tuple[str, str]


def applied() -> frozenset[Migration]:
    """Those that the database has had; empty where it was never migrated."""
    return frozenset(MigrationRecorder(connection).applied_migrations())


def known() -> frozenset[Migration]:
    return frozenset(MigrationLoader(connection).disk_migrations)


def migrate_to(wanted: Collection[Migration]) -> None:
    """Brings a database that was migrated less far, or never, to exactly this state."""
    for app, name in _ends(wanted):
        call_command("migrate", app, name, verbosity=0, interactive=False)


def migrate_on() -> None:
    """Brings the database to this program's own state."""
    call_command("migrate", verbosity=0, interactive=False)


def _ends(wanted: Collection[Migration]) -> Iterator[Migration]:
    """The last migration of each app: none that is wanted too follows it in that app."""
    nodes = MigrationLoader(connection).graph.node_map
    for node in sorted(wanted):
        following = {child.key for child in nodes[node].children if child.key[0] == node[0]}
        if following.isdisjoint(wanted):
            yield node


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """The tables are of this version, and nobody else is starting."""
    with advisory_locks.exclusive("starting"):
        if health.unready() is not None:
            call_command("migrate", verbosity=0, interactive=False)
        yield
