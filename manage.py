#!/usr/bin/env python3
"""Django's command line, with the embedded database running while a command needs one."""

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
    signal.signal(signal.SIGTERM, _leave)
    program, *arguments = sys.argv
    # Commands are modules, so their names have underscores; people type hyphens.
    command = arguments[0].replace("-", "_") if arguments and arguments[0][0:1] != "-" else ""
    with contextlib.ExitStack() as running:
        if command not in WITHOUT_DATABASE or arguments[:2] == ["keys", "retire"]:
            _start_database(running)
        execute_from_command_line([program, *([command] if command else []), *arguments[1:]])


def _start_database(running: contextlib.ExitStack) -> None:
    """Nothing to start where DATABASE_URL names a server."""
    from django.conf import settings

    from operations.postgres import server, system_account

    if settings.EMBEDDED:
        home = settings.PDPP_VAR / "postgres"
        try:
            running.enter_context(server.running(home))
        except system_account.EmbeddedPostgresError as error:
            sys.exit(f"The embedded PostgreSQL does not start. {error}")
        running.callback(_let_go)


def _let_go() -> None:
    """Close every connection, so that the pool does not miss the server when it stops."""
    from django.db import connection

    default: Any = connection  # what PostgreSQL's has more than others is not in the stubs
    default.close()
    default.close_pool()


def _leave(signum: int, frame: FrameType | None) -> None:
    """Unwind, so that the embedded database is stopped on the way out."""
    sys.exit(128 + signum)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.stderr.write("Stopped. The same command goes on, or begins anew.\n")
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        from pdpp_site import command_errors

        if (words := command_errors.in_words(error)) is None:
            raise
        sys.exit(words)
