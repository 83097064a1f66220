"""``manage.py backup``: back up everything, or one owner's rows, while the server runs."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, ProgrammingError
from django.utils import timezone
from typing_extensions import override

from evidence.management.owner_command import named_owner
from evidence.models.owners import across_owners, acting_for, first_owner
from importers.sources.account_store import count_credentials
from operations import schema_version
from operations.backup import command_options, plans
from operations.backup.dump import BackupSummary, back_up, run_to_end
from operations.backup.errors import BackupError
from operations.backup.keys import Recipient, Secret
from operations.backup.restore import describe_database_error

NEEDS_KEY = "The words of recovery key {fingerprint} open it, and nothing else."
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

    help = (
        "Back up everything, or an owner's rows, to one new, encrypted file. The server can keep"
        " running."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        command_options.add_arguments(parser)
        parser.add_argument(
            "--owner",
            metavar="NAME",
            help="Only the rows of this owner, without the account, by user name or id.",
        )
        parser.add_argument(
            "--passphrase",
            action="store_true",
            help="Ask for a passphrase, although there is a recovery key.",
        )
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
            owner_id = named_owner(options["owner"]).owner_id if options["owner"] else None
            secret = self._secret(owner_id, options)
            options["with_keys"] |= isinstance(secret, Recipient) and owner_id is None
            summary = run_to_end(
                back_up(
                    file,
                    secret,
                    owner_id=owner_id,
                    migrations=schema_version.applied_migrations(),
                    with_keys=options["with_keys"],
                    now=timezone.now(),
                    on_table=self._show,
                )
            )
        except BackupError as error:
            raise CommandError(error.text) from error
        except OSError as error:
            raise CommandError(f"No backup was made: {error.strerror}: {error.filename}") from error
        except DatabaseError as error:
            raise CommandError(f"No backup was made. {describe_database_error(error)}") from error
        with across_owners() if owner_id is None else acting_for(owner_id):
            self._report(file, summary, options)

    def _secret(self, owner_id: str | None, options: dict[str, Any]) -> Secret | Recipient:
        """Return the public half of the recovery key, unless the options name something else."""
        if options["passphrase"] or options["key_file"] is not None:
            return command_options.new_secret(options)
        try:
            owner_id = owner_id or first_owner(timezone.now()).owner_id
            with acting_for(owner_id):
                public_key = plans.get_plan(owner_id).public_key
        except ProgrammingError:  # the tables are those of an earlier release
            public_key = None
        if public_key is None:
            return command_options.new_secret(options)
        return Recipient(bytes(public_key))

    def _show(self, name: str, rows: int) -> None:
        if rows:
            self.stderr.write(f"{name}: {rows:,} rows")

    def _report(self, file: Path, summary: BackupSummary, options: dict[str, Any]) -> None:
        self.stdout.write(
            f"{file}: {summary.rows:,} rows of {len(summary.counts)} tables,"
            f" {summary.size_bytes:,} bytes, with {summary.answers} sample answers and {summary.chains}"
            " ledger chain heads for verification."
        )
        if summary.header.fingerprint:
            self.stdout.write(NEEDS_KEY.format(fingerprint=summary.header.fingerprint))
        self.stdout.write(REMINDER[options["with_keys"]])
        if count := count_credentials():
            self.stdout.write(CREDENTIALS[options["with_keys"]].format(count=count))
        key = f" --key-file {options['key_file']}" if options["key_file"] else ""
        self.stdout.write(f"Test it: manage.py drill {file}{key}")
