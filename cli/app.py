"""The commands, and how each of them ends."""

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Annotated, Any

import typer

from cli import errors
from cli.commands.aggregate import aggregate
from cli.commands.blob import blob
from cli.commands.connect import connect, disconnect
from cli.commands.export import export
from cli.commands.fetch import fetch, field
from cli.commands.records import changes, records
from cli.commands.schema import schema, streams
from cli.commands.search import search
from cli.errors import Failure
from cli.output import Output, write

COMMANDS = (
    connect,
    schema,
    streams,
    search,
    fetch,
    field,
    records,
    aggregate,
    changes,
    blob,
    export,
    disconnect,
)
HELP = "Read a personal data server with the access that its owner has granted you."
EPILOG = "\n".join(
    ["\b", "Exit codes:", *(f"  {n:>3}  {told}" for n, told in errors.MEANINGS.items())]
)


def built(*more: Any) -> typer.Typer:
    """The application with all its commands; `more` are those composed elsewhere."""
    app = typer.Typer(
        name="pdpp",
        help=HELP,
        epilog=EPILOG,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for each in (*COMMANDS, *more):
        app.command(each.__name__)(each)
    return app


def _options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=lambda asked: asked and _told_version()),
    ] = False,
) -> None:
    """Typer reads the options before the command from here."""


def _told_version() -> None:
    try:
        write(f"pdpp {installed('pdpp')}")
    except PackageNotFoundError:
        write("pdpp, run from its sources")
    raise typer.Exit


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run one command line; gives the exit code. Nothing ends in a traceback."""
    out = Output(as_json="--json" in arguments)
    try:
        given = list(arguments) or ["--help"]
        ended = app(args=given, prog_name="pdpp", standalone_mode=False)
    except Failure as failure:
        out.failure(failure)
        return failure.exit_code
    except KeyboardInterrupt:
        return errors.INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # Whoever read has seen enough, for which Typer ends the process; nothing more can be
        # written, not even at the end.
        sys.stderr.close()
        return errors.OK
    except Exception as error:  # noqa: BLE001 - the last resort, so that nobody reads a traceback
        return _unforeseen(out, error)
    return ended if isinstance(ended, int) else errors.OK


def _unforeseen(out: Output, error: Exception) -> int:
    """A complaint about the command line has a `format_message`; all else is a fault of ours."""
    worded = getattr(error, "format_message", None)
    if worded is not None:
        failure = Failure(
            "usage", worded(), exit_code=errors.USAGE, next_step="pdpp COMMAND --help"
        )
    else:
        message = f"This should not happen: {type(error).__name__}: {error}"
        failure = Failure("internal", message, exit_code=errors.INTERNAL)
    out.failure(failure)
    return failure.exit_code
