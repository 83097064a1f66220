"""``manage.py backup``: back up everything to one encrypted file while the server runs."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone
from typing_extensions import override

from evidence.storing.source_accounts import count_credentials
from operations import schema_version
from operations.backup import command_options
from operations.backup.dump import BackupSummary, back_up
from operations.backup.errors import BackupError
from operations.backup.restore import describe_database_error

REMINDER = {
    True: "The backup contains the secret key: anyone who opens it can create tokens.",
    False: "The backup does not contain the secret key: store PDPP_SECRET_KEY or var/keys.json too.",
}


CREDENTIALS = {
    True: "It contains the passwords or sign-ins of {count} live sources, and the key that opens them.",
    False: "It contains the passwords or sign-ins of {count} live sources, encrypted with the secret key.",
}


class Command(BaseCommand):
    """Writes only the file, which appears when it is complete."""

    help = "Back up everything to one new, encrypted file. The server can keep running."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        command_options.add_arguments(parser)
        parser.add_argument(
            "--make-key", action="store_true", help="Create the key file first; it must not exist."
        )
        parser.add_argument(
            "--with-keys", action="store_true", help="Include the server's secret key."
        )

    @override
    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        if options["make_key"] and options["key_file"] is None:
            raise CommandError("--make-key needs --key-file with the name of the new file.")
        try:
            if options["make_key"]:
                command_options.make_key_file(options["key_file"])
            summary = back_up(
                file,
                command_options.secret(options, new=True),
                migrations=schema_version.applied_migrations(),
                with_keys=options["with_keys"],
                now=timezone.now(),
                on_table=self._show,
            )
        except BackupError as error:
            raise CommandError(f"{error.message} {error.next_step}".strip()) from error
        except OSError as error:
            raise CommandError(f"No backup was made: {error.strerror}: {error.filename}") from error
        except DatabaseError as error:
            raise CommandError(f"No backup was made. {describe_database_error(error)}") from error
        self._report(file, summary, options)

    def _show(self, name: str, rows: int) -> None:
        if rows:
            self.stderr.write(f"{name}: {rows:,} rows")

    def _report(self, file: Path, summary: BackupSummary, options: dict[str, Any]) -> None:
        self.stdout.write(
            f"{file}: {sum(summary.counts.values()):,} rows of {len(summary.counts)} tables,"
            f" {summary.size_bytes:,} bytes, with {summary.answers} sample answers and {summary.chains}"
            " ledger chain heads for verification."
        )
        self.stdout.write(REMINDER[options["with_keys"]])
        if count := count_credentials():
            self.stdout.write(CREDENTIALS[options["with_keys"]].format(count=count))
        key = f" --key-file {options['key_file']}" if options["key_file"] else ""
        self.stdout.write(f"Test it: manage.py drill {file}{key}")
