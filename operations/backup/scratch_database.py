"""Create a temporary database on the same server for a restore drill."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import connection
from psycopg import sql

PREFIX = "pdpp_drill_"
MAX_AGE = timedelta(days=1)
"""Older databases were left behind by a killed process."""
NAME = re.compile(PREFIX + r"(\d+)_[0-9a-f]{8}")


@contextmanager
def scratch_database(*, now: datetime) -> Iterator[str]:
    """Yield the name of a new database and drop it afterwards.

    Raises DatabaseError if this account cannot create databases.
    """
    for name in _abandoned_databases(now):
        _drop(name)
    name = f"{PREFIX}{int(now.timestamp())}_{secrets.token_hex(4)}"
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield name
    finally:
        _drop(name)


def _abandoned_databases(now: datetime) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database")
        matches = [NAME.fullmatch(name) for (name,) in cursor]
    oldest = (now - MAX_AGE).timestamp()
    return [match[0] for match in matches if match is not None and int(match[1]) < oldest]


def _drop(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )
