"""How a command ends that cannot go on for a reason outside of it: in a line, with what to do."""

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError, ProgrammingError
from psycopg.errors import UndefinedTable

MISSING = "The database has no tables yet. Make them: manage.py migrate"
AWAY = "The database does not answer: {why}. See that it runs, and what DATABASE_URL says."


def in_words(error: Exception) -> str | None:
    """None where the fault is the program's own. A statement and its values are never quoted."""
    if isinstance(error, ImproperlyConfigured):
        return f"The settings do not hold. {error}"
    if isinstance(error, ProgrammingError) and isinstance(error.__cause__, UndefinedTable):
        return MISSING
    if isinstance(error, OperationalError | InterfaceError):
        return AWAY.format(why=(str(error).splitlines() or ["it says nothing"])[0].rstrip("."))
    return None
