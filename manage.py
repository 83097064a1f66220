#!/usr/bin/env python3
"""Django's command line; starts the embedded database for commands that need one."""

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import Any

from django.core.management import execute_from_command_line

WITHOUT_DATABASE = {
    "", "check", "help", "keys", "makemigrations", "upgrade_postgres", "version",
    "--help", "--version", "-h",
}  # fmt: skip


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pdpp_site.settings")
    signal.signal(signal.SIGTERM, _exit_on_signal)
    program, *arguments = sys.argv
    # Command modules have underscores; people type hyphens.
    command = arguments[0].replace("-", "_") if arguments and arguments[0][0:1] != "-" else ""
    with contextlib.ExitStack() as running:
        if command not in WITHOUT_DATABASE or arguments[:2] == ["keys", "retire"]:
            _start_database(running)
            _require_migrations(command)
        execute_from_command_line([program, *([command] if command else []), *arguments[1:]])


def _start_database(running: contextlib.ExitStack) -> None:
    """Start the embedded database, unless DATABASE_URL names a server."""
    from django.conf import settings

    from operations.postgres import server, system_account

    if settings.EMBEDDED:
        home = settings.PDPP_VAR / "postgres"
        try:
            running.enter_context(server.running(home))
        except system_account.EmbeddedPostgresError as error:
            sys.exit(f"The embedded PostgreSQL does not start. {error}")
        running.callback(_close_connections)


def _require_migrations(command: str) -> None:
    from pdpp_site import command_errors

    command_errors.require_migrations(command)


def _close_connections() -> None:
    """Close all connections, so that the pool logs no errors when the server stops."""
    from django.db import connection

    default: Any = connection  # close_pool is missing in the stubs
    default.close()
    default.close_pool()


def _exit_on_signal(signum: int, frame: FrameType | None) -> None:
    """Exit normally, so that the embedded database stops."""
    sys.exit(128 + signum)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.stderr.write("Stopped. Run the same command again to continue or restart.\n")
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        from pdpp_site import command_errors

        if (message := command_errors.describe(error)) is None:
            raise
        sys.exit(message)
