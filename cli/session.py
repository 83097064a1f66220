"""Hold the server, credentials and output of a command, and declare the common options."""

import functools
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import httpx2
import typer

from cli import http_client
from cli.credential_cache import WORKING_ROOT, CredentialCache
from cli.credentials import Credentials, token_refresher
from cli.errors import CliError, usage_error
from cli.http_client import ApiClient, Json, Params, normalize_url
from cli.output import Output, connection_label, escape_controls, print_message

ProviderUrl = Annotated[
    str | None,
    typer.Option(
        "--provider-url",
        metavar="URL",
        help="The server; default: PDPP_PROVIDER_URL, or the only connected server.",
    ),
]
CacheRoot = Annotated[
    Path | None,
    typer.Option(
        "--cache-root",
        metavar="DIR",
        help="The credential cache; default: PDPP_CACHE_ROOT, or your configuration folder.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the server's response as JSON.")]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Session:
    """What one command works with. Printed command lines repeat `repeated_options`."""

    api: ApiClient
    credentials: Credentials
    out: Output
    repeated_options: tuple[str, ...] = ()

    def get(self, path: str, params: Params = ()) -> Json:
        """Return the JSON object at a path. Raises CliError when the server rejects the request.

        Asks a person which connection is meant, if the server cannot tell.
        """
        try:
            return self.api.get(path, params, bearer=self.bearer())
        except CliError as error:
            connection_id = None if self.out.as_json else choose_connection(error)
            if connection_id is None:
                raise
            chosen = [*params, ("connection_id", connection_id)]
            return self.api.get(path, chosen, bearer=self.bearer())

    def bearer(self) -> str:
        """Return the token for the next request."""
        return self.credentials.bearer(utc_now())

    def command_line(self, *words: str) -> str:
        """Return a `pdpp` command line to paste into a shell."""
        return " ".join(map(_shell_quote, ["pdpp", *words, *self.repeated_options]))


def _shell_quote(word: str) -> str:
    """Quote a word for bash and zsh. Writes invisible characters as bytes in a `$'…'` string."""
    if escape_controls(word) == word:
        return shlex.quote(word)
    escapes = {"\\": "\\\\", "'": "\\'"}
    chars = (
        escapes.get(char, char)
        if escape_controls(char) == char
        else "".join(f"\\x{byte:02x}" for byte in char.encode())
        for char in word
    )
    return f"$'{''.join(chars)}'"


def command(run: Callable[..., Result]) -> Callable[..., Result]:
    """Decorate a command whose first parameter is a Session with the options that all share."""

    @functools.wraps(run)
    def wrapper(
        *args: Any, provider_url: str | None, cache_root: Path | None, as_json: bool, **options: Any
    ) -> Result:
        with http_client.open_client() as client:
            session = _open_session(client, url=provider_url, root=cache_root, out=Output(as_json))
            return run(session, *args, **options)

    _declare_options(wrapper, run)
    return wrapper


def _open_session(
    client: httpx2.Client, *, url: str | None, root: Path | None, out: Output
) -> Session:
    cache = open_cache(os.environ, root)
    server = select_provider_url(os.environ, cache, url)
    api = ApiClient(server, client)
    credentials = Credentials(server, os.environ, cache, token_refresher(api))
    repeated = () if url is None else ("--provider-url", url)
    if root is not None:
        repeated = (*repeated, "--cache-root", str(root))
    return Session(api, credentials, out, repeated)


def open_cache(environment: Mapping[str, str], root: Path | None) -> CredentialCache:
    """Return the cache at `root`, else at PDPP_CACHE_ROOT, else in the user's configuration."""
    from_environment = environment.get("PDPP_CACHE_ROOT")
    return CredentialCache(root or (Path(from_environment) if from_environment else None))


def select_provider_url(
    environment: Mapping[str, str], cache: CredentialCache, url: str | None
) -> str:
    """Return the server URL from the option, the environment or the cache. Raises CliError."""
    selected = url or environment.get("PDPP_PROVIDER_URL")
    if selected:
        return normalize_url(selected)
    cached = cache.provider_urls()
    if len(cached) == 1:
        return cached[0]
    if cached:
        message, next_step = (
            f"{len(cached)} servers are connected.",
            f"Pass --provider-url {cached[0]}.",
        )
    elif (WORKING_ROOT / "clients").is_dir():
        message = f"No server is connected in {cache.root}."
        next_step = (
            f"pdpp connect URL, or pass --cache-root {WORKING_ROOT} for the one in this folder."
        )
    else:
        message, next_step = "No server is connected.", "pdpp connect URL"
    raise usage_error(message, param="--provider-url", next_step=next_step)


def choose_connection(error: CliError) -> str | None:
    """Ask at a terminal which of an error's connections is meant. Return None elsewhere."""
    rows = [row for row in error.detail.get("available_connections") or () if isinstance(row, dict)]
    ids = [row["connection_id"] for row in rows]
    if error.code != "ambiguous_connection" or not ids or not is_terminal():
        return None
    print_message(f"pdpp: {escape_controls(error.message)}")
    for number, row in enumerate(rows, start=1):
        print_message(f"  {number}  {connection_label(row)}")

    def chosen(answer: str) -> str:
        if not answer.isdecimal() or not 1 <= int(answer) <= len(ids):
            raise typer.BadParameter(f"Type a number from 1 to {len(ids)}.")
        return str(ids[int(answer) - 1])

    connection_id: str = typer.prompt("Which one?", value_proc=chosen, err=True)
    return connection_id


def is_terminal() -> bool:
    """Return whether a person can be asked: standard input and error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def utc_now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)  # noqa: TID251 - the only clock of the command line


def is_stdout_terminal() -> bool:
    """Return whether results go to a terminal."""
    return sys.stdout.isatty()


def _declare_options(wrapper: Callable[..., Any], run: Callable[..., Any]) -> None:
    """Set the signature and the annotations, from which Typer reads the options."""
    shared = {"provider_url": (ProviderUrl, None), "cache_root": (CacheRoot, None),
              "as_json": (AsJson, False)}  # fmt: skip
    signature = inspect.signature(run)
    _, *own = signature.parameters.values()
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in shared.items()
    ]
    wrapper.__signature__ = signature.replace(parameters=[*own, *common])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {param.name: param.annotation for param in [*own, *common]}
