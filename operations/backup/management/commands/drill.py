"""``manage.py drill``: restore a backup into a scratch database and verify it."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from typing_extensions import override

from operations.backup.archive import run_to_end
from operations.backup.management.commands import restore
from operations.backup.restore import drill


class Command(BaseCommand):
    """A separate process restores the backup as after a loss. This installation is unchanged."""

    help = "Restore a backup into a scratch database, verify it, and drop the database."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        restore.add_file_and_key(parser)

    @override
    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        started = timezone.now()
        with restore.command_errors("There was no drill."):
            secret_line = str(restore.read_key(file, options["key_file"]))
            verification = run_to_end(drill(file, secret_line, now=started))
        seconds = (timezone.now() - started).total_seconds()
        self.stdout.write(f"{file}: drill of {started:%Y-%m-%d %H:%M} UTC, {seconds:.0f} s")
        for line in restore.format_verification(verification):
            self.stdout.write(line)
        if not verification.holds:
            raise CommandError("Verification of the backup failed.")
        self.stdout.write("The backup is valid.")
