"""``manage.py drill``: restore a backup into a scratch database and verify it."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone
from typing_extensions import override

from operations import key_file
from operations.backup import command_options
from operations.backup.archive import Secret
from operations.backup.errors import BackupError
from operations.backup.restore import Verification, describe_database_error
from operations.backup.scratch_database import scratch_database
from operations.management.commands.restore import format_verification
from operations.postgres import server as embedded_postgres


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
