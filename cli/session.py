"""Hold the server, credentials and output of a command; declare common options, and convert them to parameters."""

import functools
import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import httpx2
import typer

from cli import errors, http_client
from cli.authorization import RESOURCE_PATH
from cli.credentials import CLIENTS, WORKING_ROOT, CredentialCache, Credentials, token_refresher
from cli.errors import CliError, usage_error
from cli.http_client import ApiClient, Json, Params, normalize_url
from cli.output import Output, connection_label, escape_controls, print_message
from evidence import limits

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

        Asks a person which connection is meant, if the server cannot tell. Refuses parameters beyond
        the contract that the server does not offer, because it may ignore them.
        """
        selecting = sorted({name for name, _value in params} & limits.SELECTING_PARAMETERS)
        metadata = self.api.get(RESOURCE_PATH) if selecting else {}
        offered = metadata.get(limits.EXTENSIONS_MEMBER) or ()
        if missing := [name for name in selecting if name not in offered]:
            raise CliError(
                "unsupported_parameter",
                f"This server does not know {missing[0]}, and would answer without it.",
                exit_code=errors.REFUSED,
                param=missing[0],
            )
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


def command(run: Callable[..., Result], *, folder: str = CLIENTS) -> Callable[..., Result]:
    """Decorate a command whose first parameter is a Session with the options that all share.

    `folder` of the cache has the credentials of the command.
    """

    @functools.wraps(run)
    def wrapper(
        *args: Any, provider_url: str | None, cache_root: Path | None, as_json: bool, **options: Any
    ) -> Result:
        with http_client.open_client() as client:
            cache = open_cache(os.environ, cache_root, folder)
            session = _open_session(
                client, cache, url=provider_url, root=cache_root, out=Output(as_json)
            )
            return run(session, *args, **options)

    _declare_options(wrapper, run)
    return wrapper


def _open_session(
    client: httpx2.Client,
    cache: CredentialCache,
    *,
    url: str | None,
    root: Path | None,
    out: Output,
) -> Session:
    server = select_provider_url(os.environ, cache, url)
    api = ApiClient(server, client)
    credentials = Credentials(server, os.environ, cache, token_refresher(api))
    repeated = () if url is None else ("--provider-url", url)
    if root is not None:
        repeated = (*repeated, "--cache-root", str(root))
    return Session(api, credentials, out, repeated)


def open_cache(
    environment: Mapping[str, str], root: Path | None, folder: str = CLIENTS
) -> CredentialCache:
    """Return the cache at `root`, else at PDPP_CACHE_ROOT, else in the user's configuration."""
    from_environment = environment.get("PDPP_CACHE_ROOT")
    return CredentialCache(root or (Path(from_environment) if from_environment else None), folder)


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
    elif (WORKING_ROOT / cache.folder).is_dir():
        message = f"No server is connected in {cache.root}."
        next_step = (
            f"{cache.sign_in} URL, or pass --cache-root {WORKING_ROOT} for the one in this folder."
        )
    else:
        message, next_step = "No server is connected.", f"{cache.sign_in} URL"
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


_FILTER = re.compile(r"([^\s<>=!~\[\]]+)(?:\s*(>=|<=|!=|~|>|<|=)\s*|\s+(words)\s+)(.*)", re.DOTALL)
_OPERATORS = {">=": "gte", ">": "gt", "<=": "lte", "<": "lt", "!=": "ne", "~": "contains"}

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="A stream; see pdpp streams.")]
Connection = Annotated[
    str | None, typer.Option("--connection", metavar="ID", help="Only this connection.")
]
Fields = Annotated[
    str | None, typer.Option("--fields", metavar="A,B", help="Only these fields of each record.")
]
View = Annotated[str | None, typer.Option("--view", help="A named view instead of --fields.")]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="FIELD=VALUE",
        help="Also FIELD>=VALUE, >, <=, <, != (not), ~ (contains) and 'FIELD words WORDS'. "
        "Repeat it for several filters.",
    ),
]
After = Annotated[
    str | None, typer.Option("--after", metavar="TIME", help="Only from this time or date on.")
]
Before = Annotated[
    str | None, typer.Option("--before", metavar="TIME", help="Only before this time or date.")
]
ExtraParams = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="Another parameter of the REST API."),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Page size, at most 100.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="next_cursor of the previous page.")]
Expand = Annotated[
    list[str] | None,
    typer.Option("--expand", metavar="RELATION", help="Include the records of a relation."),
]
ExpandLimit = Annotated[
    list[str] | None,
    typer.Option("--expand-limit", metavar="RELATION=N", help="At most N records of a relation."),
]


def query_params(**values: object) -> list[tuple[str, str]]:
    """Return parameters for the values that are not None. A list repeats its name."""
    pairs: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, list):
            pairs += [(name, str(item)) for item in value]
        elif value is not None:
            pairs.append((name, str(value)))
    return pairs


def filter_params(filters: Sequence[str] | None) -> list[tuple[str, str]]:
    """Convert `size>=10` to `filter[size][gte]=10`. Raises CliError for an invalid filter."""
    return [_filter_param(text) for text in filters or ()]


def _filter_param(text: str) -> tuple[str, str]:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise usage_error(
            f"{text[:80]!r} is not a filter.",
            param="--filter",
            next_step="Write FIELD=VALUE, FIELD>=VALUE, FIELD!=VALUE, FIELD~PART or "
            "'FIELD words WORDS', quoted for the shell.",
        )
    field, sign, words, value = match.groups()
    operator = words or _OPERATORS.get(sign)
    return (f"filter[{field}][{operator}]" if operator else f"filter[{field}]"), value


def extra_params(values: Sequence[str] | None) -> list[tuple[str, str]]:
    """Return the parameters of `--param NAME=VALUE`."""
    return [_name_and_value(text, "--param") for text in values or ()]


def expand_params(
    relations: Sequence[str] | None, limits: Sequence[str] | None
) -> list[tuple[str, str]]:
    """Return the parameters of `--expand` and `--expand-limit`."""
    pairs = [("expand", relation) for relation in relations or ()]
    limit_pairs = [_name_and_value(text, "--expand-limit") for text in limits or ()]
    return [*pairs, *((f"expand_limit[{relation}]", limit) for relation, limit in limit_pairs)]


def _name_and_value(text: str, option: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise usage_error(f"{text[:80]!r} is not NAME=VALUE.", param=option)
    return name, value
