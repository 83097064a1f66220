"""Turn database and settings errors into one-line messages."""

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError, ProgrammingError
from psycopg.errors import UndefinedTable

NO_TABLES = "The database has no tables. Create them: manage.py migrate"
NO_CONNECTION = "Cannot connect to the database: {why}. Check that it is running and that DATABASE_URL is correct."


def describe(error: Exception) -> str | None:
    """Return a message for an error of the environment, or None. Never quotes a statement."""
    if isinstance(error, ImproperlyConfigured):
        return f"Invalid settings: {error}"
    if isinstance(error, ProgrammingError) and isinstance(error.__cause__, UndefinedTable):
        return NO_TABLES
    if isinstance(error, OperationalError | InterfaceError):
        why = (str(error).splitlines() or ["no reason given"])[0].rstrip(".")
        return NO_CONNECTION.format(why=why)
    return None
