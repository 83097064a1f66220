"""``manage.py drill``: restore a backup into a scratch database and verify it."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone
from typing_extensions import override

from operations.backup.archive import run_to_end
from operations.backup.keys import BackupError
from operations.backup.management.commands import restore
from operations.backup.restore import DrillFailedError, describe_database_error, drill


class Command(BaseCommand):
    """A separate process restores the backup as after a loss. This installation is unchanged."""

    help = "Restore a backup into a scratch database, verify it, and drop the database."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        restore.add_file_and_key(parser)

    @override
    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        started = timezone.now()
        try:
            secret_line = str(restore.read_key(file, options["key_file"]))
            verification = run_to_end(drill(file, secret_line, now=started))
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
        for line in restore.format_verification(verification):
            self.stdout.write(line)
        if not verification.holds:
            raise CommandError("Verification of the backup failed.")
        self.stdout.write("The backup is valid.")
