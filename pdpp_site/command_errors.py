"""Turn database and settings errors into one-line messages."""

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, get_commands
from django.db import InterfaceError, OperationalError, ProgrammingError
from psycopg.errors import UndefinedTable

OWN_APPS = frozenset(("evidence", "operations", "owner", "pdpp_site"))
WITHOUT_TABLES = frozenset((
    "backup", "doctor", "drill", "keys", "restore", "run", "setup_link", "upgrade_postgres", "worker",
))  # fmt: skip
"""Commands of ours that migrate, wait for it, or read no rows."""
PENDING = (
    "The database lacks {count} migrations of this version. Nothing was done. Run"
    " `python manage.py migrate`, or start the server with `make run`, then this command again."
)
NO_TABLES = "The database has no tables. Create them: manage.py migrate"
NO_CONNECTION = "Cannot connect to the database: {why}. Check that it is running and that DATABASE_URL is correct."


class PendingMigrationsError(CommandError):
    """A command needs tables that the database has not."""


def require_migrations(command: str) -> None:
    """Raise ``PendingMigrationsError`` if a command of ours needs migrations that have not run."""
    django.setup()
    if get_commands().get(command) not in OWN_APPS or command in WITHOUT_TABLES:
        return
    from operations.schema_version import count_pending_migrations

    if count := count_pending_migrations():
        raise PendingMigrationsError(PENDING.format(count=count))


def describe(error: Exception) -> str | None:
    """Return a message for an error of the environment, or None. Never quotes a statement."""
    if isinstance(error, PendingMigrationsError):
        return str(error)
    if isinstance(error, ImproperlyConfigured):
        return f"Invalid settings: {error}"
    if isinstance(error, ProgrammingError) and isinstance(error.__cause__, UndefinedTable):
        return NO_TABLES
    if isinstance(error, OperationalError | InterfaceError):
        why = (str(error).splitlines() or ["no reason given"])[0].rstrip(".")
        return NO_CONNECTION.format(why=why)
    return None
