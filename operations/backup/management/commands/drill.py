"""``manage.py drill``: restore a backup into a scratch database and verify it."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone
from typing_extensions import override

from operations.backup import command_options
from operations.backup.drill import drill
from operations.backup.dump import run_to_end
from operations.backup.errors import BackupError, DrillFailedError
from operations.backup.management.commands.restore import format_verification
from operations.backup.restore import describe_database_error


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
            secret = command_options.read_secret(file, options)
            with_keys, key_path = options["with_keys"], options["key_file"]
            steps = drill(file, secret, key_path=key_path, with_keys=with_keys, now=started)
            verification = run_to_end(steps)
        except DrillFailedError as error:
            raise CommandError(error.detail) from error
        except BackupError as error:
            raise CommandError(error.text) from error
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
