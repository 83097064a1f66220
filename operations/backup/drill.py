"""Restore a backup into a scratch database in another process, verify it, and drop the database."""

import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.db import ProgrammingError, connection
from psycopg import sql

from operations import key_file
from operations.backup.errors import DrillFailedError
from operations.backup.keys import RECOVERY, Secret
from operations.backup.restore import BackupReader, Verification
from operations.postgres import server as embedded_postgres

PREFIX = "pdpp_drill_"
MAX_AGE = timedelta(days=1)
"""Older databases were left behind by a killed process."""
POLL_SECONDS = 0.2


@contextmanager
def scratch_database(*, now: datetime) -> Iterator[str]:
    """Yield the name of a new database and drop it afterwards.

    Raises DatabaseError if this account cannot create databases.
    """
    for name in _abandoned_databases(now):
        _drop(name)
    name = f"{scratch_prefix()}{int(now.timestamp())}_{secrets.token_hex(4)}"
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield name
    finally:
        _drop(name)


def scratch_prefix() -> str:
    """Return how the names of this installation's scratch databases begin.

    Installations that share a PostgreSQL server do not drop each other's.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT oid FROM pg_database WHERE datname = current_database()")
        return f"{PREFIX}{cursor.fetchone()[0]}_"


def _abandoned_databases(now: datetime) -> list[str]:
    pattern = re.compile(rf"{scratch_prefix()}(\d+)_[0-9a-f]{{8}}")
    with connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database")
        matches = [pattern.fullmatch(name) for (name,) in cursor]
    oldest = (now - MAX_AGE).timestamp()
    return [match[0] for match in matches if match is not None and int(match[1]) < oldest]


def _drop(name: str) -> None:
    statement = sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name))
    with connection.cursor() as cursor:
        try:
            cursor.execute(statement + sql.SQL(" WITH (FORCE)"))
        except ProgrammingError:
            # FORCE may not end the autovacuum worker of a superuser; without it, PostgreSQL does.
            cursor.execute(statement)


def drill(
    path: Path, secret: Secret, *, key_path: Path | None = None, with_keys: bool, now: datetime
) -> Generator[None, None, Verification]:
    """Restore a backup in steps, as after a loss; this installation is unchanged.

    One of everything that a recovery key opens must bring the installation's key along. Closing the generator ends the
    process and drops the database. Raises DrillFailedError with the message of the other process, and
    DatabaseError if this account cannot create databases.
    """
    is_recovery = secret.kind == RECOVERY
    arguments = ["restore", str(path.resolve()), "--json"]
    arguments += ["--opened"] if is_recovery else []
    arguments += ["--key-file", str(key_path.resolve())] if key_path is not None else []
    arguments += ["--with-keys"] if with_keys else []
    given = {RECOVERY: secret.content.hex().encode(), "passphrase": secret.content}
    with (
        scratch_database(now=now) as name,
        tempfile.TemporaryDirectory(prefix="pdpp-drill-") as var,
    ):
        brings_key = is_recovery and _has_keys(path, secret)
        key = secrets.token_urlsafe(50) if brings_key else settings.SECRET_KEY
        environment = os.environ | {"DATABASE_URL": _url(name), "PDPP_VAR": var}
        environment["PDPP_SECRET_KEY"] = key
        if not brings_key:
            key_file.write_keys(Path(var), {"rotated": settings.PDPP_ROTATED_KEYS})
        output = yield from _run(arguments, environment, given.get(secret.kind, b""))
    content = json.loads(output)
    content.pop("holds")
    return Verification(**content)


def _has_keys(path: Path, secret: Secret) -> bool:
    with path.open("rb") as file:
        return BackupReader(file, secret).manifest.secret_key is not None


def _run(
    arguments: list[str], environment: dict[str, str], line: bytes
) -> Generator[None, None, str]:
    """Run a command and return what it printed. Raises DrillFailedError with its message."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=errors,
        )
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(line + b"\n")
            while process.poll() is None:
                yield
                time.sleep(POLL_SECONDS)
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        if (output := out.read().decode().strip()).startswith("{"):
            return output
        errors.seek(0)
        message = errors.read().decode().strip().rpartition("\n")[2]
        raise DrillFailedError(message.removeprefix("CommandError: "))


def _url(database: str) -> str:
    server = settings.DATABASE_URL or embedded_postgres.url(settings.PDPP_VAR / "postgres")
    return urlunsplit(urlsplit(server)._replace(path=f"/{database}"))
