"""``manage.py drill FILE``: restore a backup into a scratch database, and see that it holds."""

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
from operations.backup.errors import BackupFault
from operations.backup.restore import Proof, worded
from operations.backup.scratch_database import scratch_database
from operations.management.commands.restore import proved
from operations.postgres import server as embedded_postgres


class Command(BaseCommand):
    """A process of its own restores it, exactly as it would after a loss. Nothing here changes."""

    help = "Restore a backup into a scratch database, prove that it holds, and drop that again."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        command_options.add_arguments(parser)
        parser.add_argument(
            "--with-keys", action="store_true", help="Use the server's secret key inside it."
        )

    @override
    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        began = timezone.now()
        try:
            secret = command_options.secret(options, new=False)
            with scratch_database(now=began) as name:
                proof = _restored(file, secret, options, database=name)
        except BackupFault as fault:
            raise CommandError(f"{fault.message} {fault.next_step}".strip()) from fault
        except OSError as error:
            raise CommandError(f"{error.strerror}: {error.filename}") from error
        except DatabaseError as error:
            raise CommandError(f"There is no scratch database. {worded(error)}") from error
        seconds = (timezone.now() - began).total_seconds()
        self.stdout.write(f"{file}: drill of {began:%Y-%m-%d %H:%M} UTC, {seconds:.0f} s")
        for line in proved(proof):
            self.stdout.write(line)
        if not proof.holds:
            raise CommandError("The backup does not hold.")
        self.stdout.write("The backup holds.")


def _restored(file: Path, secret: Secret, options: dict[str, Any], *, database: str) -> Proof:
    """What another process says of it. Raises ``CommandError`` with its words."""
    arguments = ["restore", str(file.resolve()), "--json"]
    if secret.kind == "file":
        arguments += ["--key-file", str(options["key_file"].resolve())]
    if options["with_keys"]:
        arguments.append("--with-keys")
    with tempfile.TemporaryDirectory(prefix="pdpp-drill-") as var:
        key_file.replace(Path(var), {"rotated": settings.PDPP_ROTATED_KEYS})
        done = subprocess.run(
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
    said = done.stdout.decode().strip()
    if not said.startswith("{"):
        last = done.stderr.decode().strip().rpartition("\n")[2]
        raise CommandError(last.removeprefix("CommandError: "))
    told = json.loads(said)
    told.pop("holds")
    return Proof(**told)


def _url(database: str) -> str:
    server = settings.DATABASE_URL or embedded_postgres.url(settings.PDPP_VAR / "postgres")
    return urlunsplit(urlsplit(server)._replace(path=f"/{database}"))
