"""``manage.py backup FILE``: everything in one encrypted file, while the server runs."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone
from typing_extensions import override

from operations import schema_version
from operations.backup import command_options
from operations.backup.dump import Made, back_up
from operations.backup.errors import BackupFault
from operations.backup.restore import worded

REMINDER = {
    True: "The server's secret key is inside: whoever opens this file can make tokens.",
    False: "The server's secret key is not inside: keep PDPP_SECRET_KEY, or var/keys.json, elsewhere.",
}


class Command(BaseCommand):
    """Nothing but the file is written, and that only appears once it is whole."""

    help = "Back everything up into one new, encrypted file. The server may run meanwhile."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        command_options.add_arguments(parser)
        parser.add_argument(
            "--make-key", action="store_true", help="Make the key file first; it must not be there."
        )
        parser.add_argument(
            "--with-keys", action="store_true", help="Put the server's secret key inside, too."
        )

    @override
    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        if options["make_key"] and options["key_file"] is None:
            raise CommandError("--make-key makes the file that --key-file names; name it, too.")
        try:
            if options["make_key"]:
                command_options.make_key_file(options["key_file"])
            made = back_up(
                file,
                command_options.secret(options, new=True),
                migrations=schema_version.applied(),
                with_keys=options["with_keys"],
                now=timezone.now(),
                on_table=self._show,
            )
        except BackupFault as fault:
            raise CommandError(f"{fault.message} {fault.next_step}".strip()) from fault
        except OSError as error:
            raise CommandError(f"No backup was made: {error.strerror}: {error.filename}") from error
        except DatabaseError as error:
            raise CommandError(f"No backup was made. {worded(error)}") from error
        self._report(file, made, options)

    def _show(self, name: str, rows: int) -> None:
        if rows:
            self.stderr.write(f"{name}: {rows:,} rows")

    def _report(self, file: Path, made: Made, options: dict[str, Any]) -> None:
        self.stdout.write(
            f"{file}: {sum(made.counts.values()):,} rows of {len(made.counts)} tables,"
            f" {made.size_bytes:,} bytes, with {made.answers} answers and {made.chains} ledger ends"
            " to prove it by."
        )
        self.stdout.write(REMINDER[options["with_keys"]])
        key = f" --key-file {options['key_file']}" if options["key_file"] else ""
        self.stdout.write(f"Try it: manage.py drill {file}{key}")
