"""A database of its own on the same server, to try something in and throw away."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import connection
from psycopg import sql

PREFIX = "pdpp_drill_"
FORGOTTEN = timedelta(days=1)
"""One that is so old was left behind by a process that was killed."""
NAME = re.compile(PREFIX + r"(\d+)_[0-9a-f]{8}")


@contextmanager
def scratch_database(*, now: datetime) -> Iterator[str]:
    """The name of a new, empty database, which is gone afterwards. Raises ``DatabaseError`` where
    this account may make none."""
    for name in _left_behind(now):
        _drop(name)
    name = f"{PREFIX}{int(now.timestamp())}_{secrets.token_hex(4)}"
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield name
    finally:
        _drop(name)


def _left_behind(now: datetime) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database")
        names = [NAME.fullmatch(name) for (name,) in cursor]
    oldest = (now - FORGOTTEN).timestamp()
    return [found[0] for found in names if found is not None and int(found[1]) < oldest]


def _drop(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )
