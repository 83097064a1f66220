"""``manage.py upgrade-postgres``: upgrade the embedded database to the installed PostgreSQL."""

import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from operations.postgres.server import EmbeddedPostgresError
from operations.postgres.upgrade import UpgradeResult, upgrade


class Command(BaseCommand):
    help = "Copy the embedded database to the newest installed PostgreSQL, and keep the old one."
    requires_system_checks = []  # noqa: RUF012 - Django's own type; checks need the database

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--binaries", type=Path, metavar="FOLDER", help="The programs of the old PostgreSQL."
        )

    @override
    def handle(self, *args: Any, binaries: Path | None, **options: Any) -> None:
        if not settings.EMBEDDED:
            raise CommandError("DATABASE_URL is set; upgrade your own server with pg_upgrade.")
        started = time.monotonic()
        try:
            result = upgrade(settings.PDPP_VAR / "postgres", programs=binaries)
        except EmbeddedPostgresError as error:
            raise CommandError(str(error)) from None
        if result is None:
            self.stdout.write("The database is up to date.")
        else:
            self._report(result, seconds=time.monotonic() - started)

    def _report(self, result: UpgradeResult, *, seconds: float) -> None:
        rows = "" if result.rows is None else f" {result.rows:,} rows verified,"
        self.stdout.write(f"PostgreSQL {result.old} -> {result.new}:{rows} in {seconds:.0f} s.")
        self.stdout.write(
            f"The old database is in {result.old_data}. Delete it when the new one works."
        )
