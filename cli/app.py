"""Build the `pdpp` application and convert every failure to a message and an exit code."""

import contextlib
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from cli import errors
from cli.commands.aggregate import aggregate
from cli.commands.blob import blob
from cli.commands.collect import collect
from cli.commands.connect import connect, disconnect, login
from cli.commands.export import export
from cli.commands.fetch import fetch, field
from cli.commands.records import changes, records
from cli.commands.schema import schema, streams
from cli.commands.search import search
from cli.errors import CliError, usage_error
from cli.output import Output, print_result

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
HELP = "Read the records of a PDPP server with the access that its owner granted you."
EPILOG = "\n".join(
    [
        "\b",
        "Exit codes:",
        *(f"  {code:>3}  {meaning}" for code, meaning in errors.EXIT_CODE_MEANINGS.items()),
    ]
)


class CollectGroup(TyperGroup):
    """`pdpp collect`: its own commands, and the manifest of a connector to run in place of one."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args[:1] == ["--help"] or not self.commands.keys().isdisjoint(args[:1])
        return super().parse_args(ctx, args if named else ["run", *args])


def build_app(*more_commands: Any) -> typer.Typer:
    """Return the application with its commands and `more_commands`."""
    app = typer.Typer(
        name="pdpp",
        help=HELP,
        epilog=EPILOG,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_global_options)
    for command in (*COMMANDS, *more_commands):
        app.command(command.__name__)(command)
    collecting = typer.Typer(cls=CollectGroup, rich_markup_mode=None)
    collecting.command("run")(collect)
    collecting.command("login")(login)
    app.add_typer(
        collecting, name="collect", help="Collect records: MANIFEST -- COMMAND, or login URL."
    )
    return app


def _global_options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=lambda value: value and _print_version()),
    ] = False,
) -> None:
    """Declare the options before the command name."""


def _print_version() -> None:
    try:
        print_result(f"pdpp {version('pdpp')}")
    except PackageNotFoundError:
        print_result("pdpp, run from its sources")
    raise typer.Exit


def run(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Prints errors without a traceback."""
    out = Output(as_json="--json" in arguments)
    # Standard output of `pdpp mcp` is for the protocol only.
    stdout = sys.stderr if arguments[:1] == ["mcp"] and "--help" in arguments else sys.stdout
    try:
        with contextlib.redirect_stdout(stdout):
            result = app(
                args=list(arguments) or ["--help"], prog_name="pdpp", standalone_mode=False
            )
    except CliError as error:
        out.error(error)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return errors.INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # Typer exits when the reader of the pipe closes it; a write at exit would fail again.
        sys.stderr.close()
        return errors.OK
    except Exception as error:  # noqa: BLE001 - print every other error without a traceback
        cli_error = _unexpected_error(error)
        out.error(cli_error)
        return cli_error.exit_code
    return result if isinstance(result, int) else errors.OK


def _unexpected_error(error: Exception) -> CliError:
    # Errors of Click about the command line have `format_message`.
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        return usage_error(format_message(), next_step="pdpp COMMAND --help")
    message = f"Internal error: {type(error).__name__}: {error}"
    return CliError("internal", message, exit_code=errors.INTERNAL)
