"""``manage.py restore``: restore everything, or one owner's rows, with all grants paused."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone
from typing_extensions import override

from operations import key_file, schema_version
from operations.backup import command_options
from operations.backup.errors import BackupError, MigrationsDifferError
from operations.backup.keys import RECOVERY
from operations.backup.restore import (
    BackupReader,
    RestoreSummary,
    Verification,
    describe_database_error,
    require_empty,
    verify_restore,
)
from operations.backup.table_copy import analyze

ACCESS_PAUSED = (
    "{paused} grants were paused and {ended} owner tokens revoked. Resume or disconnect each app on"
    " the page Connected apps, and create new owner tokens."
)
KEY_SAVED = "The secret key was saved in {path}.{set_it}"
SET_KEY = " Set PDPP_SECRET_KEY to it before starting the server."


class Command(BaseCommand):
    """Exits with status 1 if the restore or its verification fails."""

    help = "Restore a backup into an empty database, or one owner's rows beside other owners. Grants pause."
    requires_system_checks = []  # noqa: RUF012 - Django's own type; there are no tables yet

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        command_options.add_arguments(parser)
        command_options.add_opened(parser)
        parser.add_argument("--json", action="store_true", help="Print the verification as JSON.")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="Delete what the owner of the backup has here first. Stop the server before.",
        )
        key_options = parser.add_mutually_exclusive_group()
        key_options.add_argument(
            "--with-keys", action="store_true", help="Restore the secret key from the backup."
        )
        key_options.add_argument(
            "--without-the-key",
            action="store_true",
            help="Restore although the secret key of the backup is lost.",
        )

    @override
    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            secret = command_options.read_secret(file, options)
            with file.open("rb") as opened:
                backup = BackupReader(opened, secret)
                # Words open what restores everything, as the page Backups promises.
                if secret.kind == RECOVERY and not options["without_the_key"]:
                    options["with_keys"] |= backup.manifest.owner_id is None
                summary = self._restore(backup, options)
        except BackupError as error:
            raise CommandError(error.text) from error
        except OSError as error:
            raise CommandError(f"{error.strerror}: {error.filename}") from error
        except DatabaseError as error:
            raise CommandError(f"Nothing was restored. {describe_database_error(error)}") from error
        if options["with_keys"]:
            self._save_key()
        analyze()
        verification = verify_restore(summary)
        self._report(summary, verification, as_json=options["json"])
        if not verification.holds and not options["without_the_key"]:
            raise CommandError("The backup was restored, but its answers or ledger differ.")

    def _restore(self, backup: BackupReader, options: dict[str, Any]) -> RestoreSummary:
        """Create the backup's tables, restore its rows, then migrate to this version."""
        known, applied = schema_version.known_migrations(), schema_version.applied_migrations()
        backup.require_restorable(known=known, applied=applied)
        backup.require_secret(with_keys=options["with_keys"], without=options["without_the_key"])
        if options["with_keys"]:
            settings.SECRET_KEY = backup.manifest.secret_key
            settings.PDPP_ROTATED_KEYS = backup.manifest.rotated_keys
            settings.SECRET_KEY_FALLBACKS = backup.manifest.rotated_keys.get("secret", [])
        if applied != backup.manifest.migrations:
            if applied and backup.manifest.owner_id is not None:
                raise MigrationsDifferError
            if applied:  # a killed restore or an older version created tables
                require_empty()
            schema_version.migrate_to(backup.manifest.migrations)
        summary = backup.restore(
            now=timezone.now(), replace=options["replace"], on_table=self._show
        )
        schema_version.migrate_to_latest()
        return summary

    def _show(self, name: str, rows: int) -> None:
        if rows:
            self.stderr.write(f"{name}: {rows:,} rows")

    def _report(
        self, summary: RestoreSummary, verification: Verification, *, as_json: bool
    ) -> None:
        if as_json:
            self.stdout.write(json.dumps({**asdict(verification), "holds": verification.holds}))
            return
        for line in format_verification(verification):
            self.stdout.write(line)
        self.stdout.write(ACCESS_PAUSED.format(paused=summary.paused, ended=summary.ended))

    def _save_key(self) -> None:
        keys = {"secret_key": settings.SECRET_KEY, "rotated": settings.PDPP_ROTATED_KEYS}
        path = key_file.write_keys(settings.PDPP_VAR, keys)
        is_set = settings.PDPP_SECRET_KEY == settings.SECRET_KEY
        set_it = "" if is_set or (settings.EMBEDDED and not settings.PDPP_SECRET_KEY) else SET_KEY
        self.stderr.write(KEY_SAVED.format(path=path, set_it=set_it))


def format_verification(verification: Verification) -> list[str]:
    """Return the lines that describe a verification."""
    same = verification.answers - len(verification.differing)
    ledger = f"{verification.ledger_faults} errors" if verification.ledger_faults else "no errors"
    return [
        f"Rows: {verification.rows:,}; every table has as many as at backup time.",
        f"Answers: {same} of {verification.answers} equal those at backup time.",
        *(f"  differs: {answer}" for answer in verification.differing),
        f"Ledger: {verification.ledger_rows:,} rows, {ledger}; {verification.heads} chain heads,"
        f" {'equal' if verification.heads_equal else 'NOT equal'} to those at backup time.",
    ]
