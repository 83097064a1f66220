"""``manage.py restore``: restore everything, or one owner's rows, with all grants paused."""

import getpass
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone
from pyrage.x25519 import Identity
from typing_extensions import override

from operations import health, key_file
from operations.backup.archive import (
    BackupReader,
    installation_keys,
    open_backup,
    opens,
    require_age_file,
)
from operations.backup.keys import (
    SECRET_LINE,
    BackupError,
    RecoveryKey,
    parse_identity,
    read_key_file,
)
from operations.backup.restore import (
    MigrationsDifferError,
    RestoreSummary,
    Verification,
    describe_database_error,
    require_empty,
    require_key,
    require_restorable,
    restore,
    verify_restore,
)
from operations.backup.table_copy import analyze

ACCESS_PAUSED = (
    "{paused} grants were paused and {ended} owner tokens revoked. Resume or disconnect each app on"
    " the page Connected apps, and create new owner tokens."
)
ASK = "The 12 words of the recovery key, or a line AGE-SECRET-KEY-1…: "
KEY_SAVED = "The secret key was saved in {path}.{set_it}"
SET_KEY = " Set PDPP_SECRET_KEY to it before starting the server."


class Command(BaseCommand):
    """Exits with status 1 if the restore or its verification fails."""

    help = "Restore a backup into an empty database, or one owner's rows beside other owners. Grants pause."
    requires_system_checks = []  # noqa: RUF012 - Django's own type; there are no tables yet

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        add_file_and_key(parser)
        parser.add_argument("--json", action="store_true", help="Print the verification as JSON.")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="Delete what the owner of the backup has here first. Stop the server before.",
        )
        parser.add_argument(
            "--without-the-key",
            action="store_true",
            help="Restore an owner's rows although the secret key that they were made under is lost.",
        )

    @override
    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        with command_errors("Nothing was restored."):
            identity = read_key(file, options["key_file"])
            with open_backup(file, identity) as backup:
                summary = self._restore(backup, options)
        self._save_keys()
        analyze()
        verification = verify_restore(summary)
        self._report(summary, verification, as_json=options["json"])
        if not verification.holds and not options["without_the_key"]:
            raise CommandError("The backup was restored, but its answers or ledger differ.")

    def _restore(self, backup: BackupReader, options: dict[str, Any]) -> RestoreSummary:
        """Create the backup's tables, restore its rows, then migrate to this version."""
        known, applied = health.known_migrations(), health.applied_migrations()
        manifest = backup.manifest
        require_restorable(manifest, known=known, applied=applied)
        if not options["without_the_key"]:
            require_key(manifest)
        if applied != manifest.migrations:
            if applied and manifest.owner_id is not None:
                raise MigrationsDifferError
            if applied:  # a killed restore or an older version created tables
                require_empty()
            health.migrate_to(manifest.migrations)
        self._use_keys(manifest.keys)
        summary = restore(
            backup, now=timezone.now(), replace=options["replace"], on_table=self._show
        )
        health.migrate_to_latest()
        return summary

    def _use_keys(self, keys: dict[str, Any] | None) -> None:
        """Use the keys of the backup, and note that they are to be saved, unless they are known."""
        self._new_keys = None if keys is None or keys == installation_keys() else keys
        if self._new_keys is not None:
            settings.SECRET_KEY = self._new_keys["secret_key"]
            settings.PDPP_ROTATED_KEYS = self._new_keys["rotated"]
            settings.SECRET_KEY_FALLBACKS = self._new_keys["rotated"].get("secret", [])

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

    def _save_keys(self) -> None:
        if self._new_keys is None:
            return
        path = key_file.write_keys(settings.PDPP_VAR, self._new_keys)
        is_set = settings.PDPP_SECRET_KEY == settings.SECRET_KEY
        set_it = "" if is_set or (settings.EMBEDDED and not settings.PDPP_SECRET_KEY) else SET_KEY
        self.stderr.write(KEY_SAVED.format(path=path, set_it=set_it))


@contextmanager
def command_errors(outcome: str) -> Iterator[None]:
    """Convert what a backup, its file or the database reports to one line of a command."""
    try:
        yield
    except BackupError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{outcome} {error.strerror}: {error.filename}") from error
    except DatabaseError as error:
        raise CommandError(f"{outcome[:-1]}, for {describe_database_error(error)}.") from error


def add_file_and_key(parser: CommandParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="KEY",
        help="Open the backup with this key of age. Default: ask for the words of the recovery key,"
        " or read them from standard input if there is no terminal.",
    )


def read_key(file: Path, path: Path | None) -> Identity:
    """Return the key of a backup, from a key file or from words. Raises BackupError and OSError."""
    require_age_file(file)
    if path is not None:
        return read_key_file(path)
    is_terminal = sys.stdin.isatty()
    text = getpass.getpass(ASK) if is_terminal else sys.stdin.readline()
    if SECRET_LINE.search(text):
        return parse_identity(text)
    return RecoveryKey.parse(text, fits=lambda key: opens(file, key.identity)).identity


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
