"""``manage.py upgrade-postgres``: the embedded database under the PostgreSQL of today's wheel."""

import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from operations.postgres.system_account import EmbeddedPostgresError
from operations.postgres.upgrade import Upgraded, upgrade


class Command(BaseCommand):
    """``manage.py`` starts no database for it."""

    help = "Copy the embedded database to the newest PostgreSQL installed, and keep the old one."
    requires_system_checks = []  # noqa: RUF012 - Django's own shape; they ask the database

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--binaries", type=Path, metavar="FOLDER", help="the programs of the old PostgreSQL"
        )

    @override
    def handle(self, *args: Any, binaries: Path | None, **options: Any) -> None:
        if not settings.EMBEDDED:
            raise CommandError("DATABASE_URL names a server of yours; pg_upgrade is its way.")
        began = time.monotonic()
        try:
            done = upgrade(settings.PDPP_VAR / "postgres", programs=binaries)
        except EmbeddedPostgresError as error:
            raise CommandError(str(error)) from None
        if done is None:
            self.stdout.write("There is nothing to upgrade.")
        else:
            self._report(done, seconds=time.monotonic() - began)

    def _report(self, done: Upgraded, *, seconds: float) -> None:
        rows = "" if done.rows is None else f" {done.rows:,} rows, counted on both sides,"
        self.stdout.write(f"PostgreSQL {done.old} -> {done.new}:{rows} in {seconds:.0f} s.")
        self.stdout.write(f"The old database is kept in {done.kept}; delete it when you are sure.")
