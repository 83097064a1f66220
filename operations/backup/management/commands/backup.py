"""``manage.py backup``: back up everything, or one owner's rows, while the server runs."""

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import ProgrammingError
from django.utils import timezone
from pyrage.x25519 import Identity, Recipient
from typing_extensions import override

from evidence.management.owner_command import named_owner
from evidence.models.owners import across_owners, acting_for, first_owner
from importers.sources.account_store import count_credentials
from operations import health
from operations.backup import schedule
from operations.backup.archive import BackupSummary, back_up, run_to_end
from operations.backup.keys import BackupError, fingerprint, read_key_file
from operations.backup.management.commands.restore import command_errors

KEY_FILE = "# Created by manage.py backup. This key opens every backup that was made with it.\n"
NEEDS_KEY = "{key} opens it, and nothing else."
WITH_KEYS = "The backup contains the secret key: anyone who opens it can create tokens."
CREDENTIALS = "It contains the passwords or sign-ins of {count} live sources."


class NoRecoveryKeyError(BackupError):
    """There is no recovery key. Create one on the page Backups, or a key file with: --key-file KEY
    --make-key"""


class Command(BaseCommand):
    """Writes only the file, which appears when it is complete."""

    help = (
        "Back up everything, or an owner's rows, to one new, encrypted file. The server can keep"
        " running."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument(
            "--owner",
            metavar="NAME",
            help="Only the rows of this owner, without the account, by user name or id.",
        )
        parser.add_argument(
            "--key-file",
            type=Path,
            metavar="KEY",
            help="Encrypt to this key of age. Default: to the recovery key of the page Backups.",
        )
        parser.add_argument(
            "--make-key", action="store_true", help="Create the key file first; it must not exist."
        )

    @override
    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        if options["make_key"] and options["key_file"] is None:
            raise CommandError("--make-key needs --key-file with the name of the new file.")
        with command_errors("No backup was made."):
            owner_id = named_owner(options["owner"]).owner_id if options["owner"] else None
            recipient = self._recipient(owner_id, options)
            steps = back_up(
                file,
                [recipient],
                owner_id=owner_id,
                migrations=health.applied_migrations(),
                now=timezone.now(),
                on_table=self._show,
            )
            summary = run_to_end(steps)
        key_file = options["key_file"]
        key = key_file or f"Recovery key {fingerprint(str(recipient))}"
        self._report(file, summary, owner_id, NEEDS_KEY.format(key=key))
        self.stdout.write(
            f"Test it: manage.py drill {file}{f' --key-file {key_file}' * bool(key_file)}"
        )

    def _recipient(self, owner_id: str | None, options: dict[str, Any]) -> Recipient:
        """Return the public half of the recovery key, or of the key file that the options name."""
        if (path := options["key_file"]) is not None:
            if options["make_key"]:
                _make_key_file(path)
            return read_key_file(path).to_public()
        try:
            owner_id = owner_id or first_owner(timezone.now()).owner_id
            with acting_for(owner_id):
                recipient = schedule.get_plan(owner_id).recipient
        except ProgrammingError:  # the tables are those of another release
            recipient = ""
        if not recipient:
            raise NoRecoveryKeyError
        return Recipient.from_str(recipient)

    def _show(self, name: str, rows: int) -> None:
        if rows:
            self.stderr.write(f"{name}: {rows:,} rows")

    def _report(self, file: Path, summary: BackupSummary, owner_id: str | None, key: str) -> None:
        self.stdout.write(
            f"{file}: {summary.rows:,} rows of {len(summary.counts)} tables,"
            f" {summary.size_bytes:,} bytes, with {summary.answers} sample answers and {summary.chains}"
            " ledger chain heads for verification."
        )
        self.stdout.write(key)
        if owner_id is None:
            self.stdout.write(WITH_KEYS)
        with across_owners() if owner_id is None else acting_for(owner_id):
            if count := count_credentials():
                self.stdout.write(CREDENTIALS.format(count=count))


def _make_key_file(path: Path) -> None:
    """Create a random key of age with mode 0600. Raises FileExistsError."""
    key = Identity.generate()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{KEY_FILE}# public key: {key.to_public()}\n{key}\n")
