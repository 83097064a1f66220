"""``manage.py psql``: PostgreSQL's own terminal on the database of this installation."""

import os
import shutil
import subprocess
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from typing_extensions import override

from operations.postgres import server


class Command(BaseCommand):
    help = "Open psql on the database of this installation. Options after -- go to psql."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arguments", nargs="*", metavar="-- OPTION")

    @override
    def handle(self, *args: Any, arguments: list[str], **options: Any) -> None:
        params = conninfo_to_dict(
            settings.DATABASE_URL or server.url(settings.PDPP_VAR / "postgres")
        )
        # In the environment, because `ps` shows arguments.
        password = {"PGPASSWORD": str(params.pop("password"))} if "password" in params else {}
        process = subprocess.run(
            [_program(), make_conninfo("", **params), *arguments],
            env=os.environ | password,
            check=False,
        )
        sys.exit(process.returncode)


def _program() -> str:
    """Return the psql of the embedded PostgreSQL or of the system. Raises CommandError."""
    try:
        bundled = server.bundled_programs() / "psql"
    except server.EmbeddedPostgresError:
        bundled = None
    if bundled is not None and bundled.exists():
        return str(bundled)
    if found := shutil.which("psql"):
        return found
    raise CommandError("psql is missing. On Debian, install it: apt install postgresql-client")
