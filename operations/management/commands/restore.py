"""``manage.py restore FILE``: a backup into an empty database; nobody reads it until you say so."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone
from typing_extensions import override

from evidence.storing.table_copy import look_around
from operations import key_file, schema_version
from operations.backup import command_options
from operations.backup.errors import BackupFault
from operations.backup.restore import Backup, Proof, Restored, prove, require_empty, worded

SUSPENDED = (
    "{paused} grants are paused and {ended} owner tokens have ended. Look at each app on the page"
    " Connected apps, and resume or end it there; make owner tokens anew."
)
KEY_KEPT = "The secret key is in {path}.{set_it}"
SET_IT = " Set PDPP_SECRET_KEY to it before the server starts."


class Command(BaseCommand):
    """Ends with 1 where nothing was restored, or where what was restored answers otherwise."""

    help = "Restore a backup into an empty database. Grants come back paused."
    requires_system_checks = []  # noqa: RUF012 - Django's own shape; there are no tables yet

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        command_options.add_arguments(parser)
        parser.add_argument("--json", action="store_true", help="Print the proof for a program.")
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--with-keys", action="store_true", help="Take the server's secret key from it, too."
        )
        which.add_argument(
            "--without-the-key",
            action="store_true",
            help="Restore although the secret key it was made under is lost.",
        )

    @override
    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            with file.open("rb") as opened:
                backup = Backup(opened, command_options.secret(options, new=False))
                restored = self._restore(backup, options)
        except BackupFault as fault:
            raise CommandError(f"{fault.message} {fault.next_step}".strip()) from fault
        except OSError as error:
            raise CommandError(f"{error.strerror}: {error.filename}") from error
        except DatabaseError as error:
            raise CommandError(f"Nothing was restored. {worded(error)}") from error
        if options["with_keys"]:
            self._keep_key()
        look_around()
        proof = prove(restored)
        self._report(restored, proof, as_json=options["json"])
        if not proof.holds and not options["without_the_key"]:
            raise CommandError("It was restored, and does not answer as it did when it was made.")

    def _restore(self, backup: Backup, options: dict[str, Any]) -> Restored:
        """Tables as the backup has them, its rows, and then the tables of this program."""
        known, applied = schema_version.known(), schema_version.applied()
        backup.require_restorable(known=known, applied=applied)
        backup.require_secret(with_keys=options["with_keys"], without=options["without_the_key"])
        if options["with_keys"]:
            settings.SECRET_KEY = backup.manifest.secret_key
            settings.PDPP_ROTATED_KEYS = backup.manifest.rotated_keys
            settings.SECRET_KEY_FALLBACKS = backup.manifest.rotated_keys.get("secret", [])
        if applied != backup.manifest.migrations:
            if applied:  # by a restore that was killed, or by an older version
                require_empty()
            schema_version.migrate_to(backup.manifest.migrations)
        restored = backup.restore(now=timezone.now(), on_table=self._show)
        schema_version.migrate_on()
        return restored

    def _show(self, name: str, rows: int) -> None:
        if rows:
            self.stderr.write(f"{name}: {rows:,} rows")

    def _report(self, restored: Restored, proof: Proof, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps({**asdict(proof), "holds": proof.holds}))
            return
        for line in proved(proof):
            self.stdout.write(line)
        self.stdout.write(SUSPENDED.format(paused=restored.paused, ended=restored.ended))

    def _keep_key(self) -> None:
        kept = {"secret_key": settings.SECRET_KEY, "rotated": settings.PDPP_ROTATED_KEYS}
        path = key_file.replace(settings.PDPP_VAR, kept)
        set_it = "" if settings.EMBEDDED else SET_IT
        self.stderr.write(KEY_KEPT.format(path=path, set_it=set_it))


def proved(proof: Proof) -> list[str]:
    """The receipt."""
    same = proof.answers - len(proof.differing)
    ledger = "no fault" if not proof.ledger_faults else f"{proof.ledger_faults} faults"
    return [
        f"Rows: {proof.rows:,}, as many in every table as when the backup was made.",
        f"Answers: {same} of {proof.answers} as they were then.",
        *(f"  differs: {each}" for each in proof.differing),
        f"Ledger: {proof.ledger_rows:,} rows, {ledger}; {proof.heads} ends,"
        f" {'the same' if proof.heads_equal else 'NOT the same'} as then.",
    ]
