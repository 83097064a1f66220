"""``manage.py drill``: restore a backup into a scratch database and verify it."""

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from django.utils import timezone
from psycopg import sql
from typing_extensions import override

from operations import key_file
from operations.backup import command_options
from operations.backup.archive import Secret
from operations.backup.errors import BackupError
from operations.backup.restore import Verification, describe_database_error
from operations.management.commands.restore import format_verification
from operations.postgres import server as embedded_postgres

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


class Command(BaseCommand):
    """A separate process restores the backup as after a loss. This installation is unchanged."""

    help = "Restore a backup into a scratch database, verify it, and drop the database."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        command_options.add_arguments(parser)
        parser.add_argument(
            "--with-keys", action="store_true", help="Use the secret key in the backup."
        )

    @override
    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        started = timezone.now()
        try:
            secret = command_options.secret(options, new=False)
            with scratch_database(now=started) as name:
                verification = _restore(file, secret, options, database=name)
        except BackupError as error:
            raise CommandError(f"{error.message} {error.next_step}".strip()) from error
        except OSError as error:
            raise CommandError(f"{error.strerror}: {error.filename}") from error
        except DatabaseError as error:
            raise CommandError(
                f"Cannot create a scratch database. {describe_database_error(error)}"
            ) from error
        seconds = (timezone.now() - started).total_seconds()
        self.stdout.write(f"{file}: drill of {started:%Y-%m-%d %H:%M} UTC, {seconds:.0f} s")
        for line in format_verification(verification):
            self.stdout.write(line)
        if not verification.holds:
            raise CommandError("Verification of the backup failed.")
        self.stdout.write("The backup is valid.")


def _restore(file: Path, secret: Secret, options: dict[str, Any], *, database: str) -> Verification:
    """Restore in another process. Raises ``CommandError`` with the message of that process."""
    arguments = ["restore", str(file.resolve()), "--json"]
    if secret.kind == "file":
        arguments += ["--key-file", str(options["key_file"].resolve())]
    if options["with_keys"]:
        arguments.append("--with-keys")
    with tempfile.TemporaryDirectory(prefix="pdpp-drill-") as var:
        key_file.write_keys(Path(var), {"rotated": settings.PDPP_ROTATED_KEYS})
        process = subprocess.run(
            [sys.executable, str(settings.BASE_DIR / "manage.py"), *arguments],
            env=os.environ
            | {
                "DATABASE_URL": _url(database),
                "PDPP_SECRET_KEY": settings.SECRET_KEY,
                "PDPP_VAR": var,
            },
            input=secret.content + b"\n" if secret.kind == "passphrase" else b"",
            capture_output=True,
            check=False,
        )
    output = process.stdout.decode().strip()
    if not output.startswith("{"):
        message = process.stderr.decode().strip().rpartition("\n")[2]
        raise CommandError(message.removeprefix("CommandError: "))
    result = json.loads(output)
    result.pop("holds")
    return Verification(**result)


def _url(database: str) -> str:
    server = settings.DATABASE_URL or embedded_postgres.url(settings.PDPP_VAR / "postgres")
    return urlunsplit(urlsplit(server)._replace(path=f"/{database}"))
