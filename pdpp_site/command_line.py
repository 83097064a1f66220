"""The server's command line: ``manage.py``, ``pdpp-server`` and ``python -m pdpp_site``.

Starts the embedded database for commands that need one, and turns database and settings errors into
one-line messages.
"""

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import BaseCommand, CommandError, ManagementUtility, get_commands
from django.core.management.color import color_style
from django.db import DatabaseError, InterfaceError, OperationalError, ProgrammingError
from psycopg.errors import UndefinedTable
from typing_extensions import override

OWN_APPS = frozenset(("evidence", "operations", "owner", "pdpp_site"))
WITHOUT_TABLES = frozenset((
    "backup", "doctor", "drill", "keys", "psql", "restore", "run", "setup_link", "upgrade_postgres",
    "worker",
))  # fmt: skip
"""Commands of ours that migrate, wait for it, or read no rows."""
TO_LOOK = frozenset(("psql", "shell"))
"""Commands that work on a database of any version."""
PENDING = (
    "The database lacks {count} migrations of this version. Nothing was done. Run"
    " `python manage.py migrate`, or start the server with `make run`, then this command again."
)
OTHER_VERSION = (
    "The database was made by another version of PDPP ({sign}), which this version"
    " cannot read. Nothing was done. Use that version, or name another database."
)
NO_TABLES = "The database has no tables. Create them: manage.py migrate"
NO_CONNECTION = "Cannot connect to the database: {why}. Check that it is running and that DATABASE_URL is correct."


INSTALLED = "pdpp-server"
"""The program of the installed package, which serves if no command is named."""


class SchemaError(CommandError):
    """The tables of the database are not those that a command needs."""


def require_schema(command: str) -> None:
    """Raise ``SchemaError`` if the tables are of another version, or lack migrations that a command needs."""
    django.setup()
    from operations.health import (
        count_pending_migrations,
        tables_without_owners,
        unknown_migrations,
    )

    with contextlib.suppress(DatabaseError):  # a command that needs the database reports it
        if command not in TO_LOOK:
            if unknown := unknown_migrations():
                app, name = unknown[-1]
                raise SchemaError(OTHER_VERSION.format(sign=f"it has the migration {app} {name}"))
            if tables := tables_without_owners():
                raise SchemaError(OTHER_VERSION.format(sign=f"{tables[0]} has no owners"))
    package = str(get_commands().get(command)).partition(".")[0]
    if package not in OWN_APPS or command in WITHOUT_TABLES:
        return
    if count := count_pending_migrations():
        raise SchemaError(PENDING.format(count=count))


def describe(error: Exception) -> str | None:
    """Return a message for an error of the environment, or None. Never quotes a statement."""
    if isinstance(error, SchemaError):
        return str(error)
    if isinstance(error, ImproperlyConfigured):
        return f"Invalid settings: {error}"
    if isinstance(error, ProgrammingError) and isinstance(error.__cause__, UndefinedTable):
        return NO_TABLES
    if isinstance(error, OperationalError | InterfaceError):
        why = (str(error).splitlines() or ["no reason given"])[0].rstrip(".")
        return NO_CONNECTION.format(why=why)
    return None


WITHOUT_DATABASE = {
    "", "check", "help", "keys", "makemigrations", "upgrade-postgres", "version",
    "--help", "--version", "-h",
}  # fmt: skip
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Run the server": ("run", "worker", "mcp-stdio", "doctor", "setup-link", "invite", "migrate"),
    "Bring records in": (
        "import",
        "sync",
        "seed",
        "demo",
        "declare",
        "connect",
        "ingest",
        "collector",
    ),
    "Decide who reads them": ("grant", "owner-token", "ledger"),
    "Keep and erase": ("keep", "erase", "prune"),
    "Back up": ("backup", "drill", "restore", "keys"),
    "Maintain": ("reindex", "embed", "upgrade-postgres", "distribute", "undistribute"),
    "Debug": ("trace", "psql", "shell"),
}
"""Every command of this server, as people type it."""
DJANGO_OPTIONS = {
    "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color",
    "--force-color", "--skip-checks",
}  # fmt: skip


class ServerCommands(ManagementUtility):
    """Django's commands, with a help that shows our own, and underscores typed as hyphens."""

    def __init__(self, argv: list[str]) -> None:
        super().__init__(argv)
        if argv[0].endswith("__main__.py"):
            self.prog_name = "python -m pdpp_site"

    @override
    def main_help_text(self, commands_only: bool = False) -> str:
        if commands_only:
            return super().main_help_text(commands_only=True)
        lines = [f"Usage: {self.prog_name} COMMAND [OPTIONS]"]
        for title, names in GROUPS.items():
            lines += ["", color_style().NOTICE(title)]
            lines += [f"  {name:<18}{self._summary(name)}" for name in names]
        return "\n".join([
            *lines,
            "",
            f"{self.prog_name} help COMMAND shows its options, "
            f"{self.prog_name} help --commands all commands with Django's own.",
        ])  # fmt: skip

    def _summary(self, name: str) -> str:
        """Return the first sentence of a command's help."""
        return self.fetch_command(name).help.split(". ")[0].rstrip(".")

    @override
    def fetch_command(self, subcommand: str) -> BaseCommand:
        command = super().fetch_command(subcommand.replace("-", "_"))
        gc.enable()
        if any(subcommand.replace("_", "-") in names for names in GROUPS.values()):
            command.suppressed_base_arguments = DJANGO_OPTIONS
        return command


def main() -> None:
    """Run the command of this process and exit with one line where the environment is wrong."""
    try:
        _run(sys.argv)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped. Run the same command again to continue or restart.\n")
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        if (message := describe(error)) is None:
            raise
        sys.exit(message)


def _run(argv: list[str]) -> None:
    os.umask(0o077)  # no other account of the machine may read what this one stores
    gc.disable()  # imports allocate much and leave no garbage
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pdpp_site.settings")
    signal.signal(signal.SIGTERM, _exit_on_signal)
    # Command modules have underscores; people type hyphens, and both are accepted.
    arguments = [argument.replace("_", "-") for argument in argv[1:2]] + argv[2:]
    if not arguments and Path(argv[0]).name == INSTALLED:
        arguments = ["run"]
    command = arguments[0] if arguments else ""
    needs_database = command not in WITHOUT_DATABASE or arguments[:2] == ["keys", "retire"]
    with contextlib.ExitStack() as running:
        if needs_database and {"--help", "-h"}.isdisjoint(arguments):
            _start_database(running)
            require_schema(command)
        ServerCommands([argv[0], *arguments]).execute()


def _start_database(running: contextlib.ExitStack) -> None:
    """Start the embedded database, unless DATABASE_URL names a server."""
    from django.conf import settings

    from operations.postgres import server

    if settings.EMBEDDED:
        home = settings.PDPP_VAR / "postgres"
        try:
            running.enter_context(server.running(home))
        except server.EmbeddedPostgresError as error:
            sys.exit(f"The embedded PostgreSQL does not start. {error}")
        running.callback(_close_connections)


def _close_connections() -> None:
    """Close all connections, so that the pool logs no errors when the server stops."""
    from django.db import connection

    default: Any = connection  # close_pool is missing in the stubs
    default.close()
    default.close_pool()


def _exit_on_signal(signum: int, frame: FrameType | None) -> None:
    """Exit normally, so that the embedded database stops."""
    sys.exit(128 + signum)
