"""One run of a command: the provider it asks, the token it asks with, where it writes.

A command is a function whose first parameter is a `Session`; `command` gives it the options that
all of them have.
"""

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

from cli import credentials as renewing
from cli import http_client
from cli.credential_cache import Cache
from cli.credentials import Credentials
from cli.errors import usage
from cli.http_client import Json, Params, Provider, normalized
from cli.output import Output, plain

ProviderUrl = Annotated[
    str | None,
    typer.Option(
        "--provider-url",
        metavar="URL",
        help="The server to ask: else PDPP_PROVIDER_URL, else the only one connected.",
    ),
]
CacheRoot = Annotated[
    Path | None,
    typer.Option(
        "--cache-root", metavar="DIR", help="The credential cache: else PDPP_CACHE_ROOT, else .pdpp"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="The server's answer as JSON, for programs.")]
Ran = TypeVar("Ran")


@dataclass(frozen=True, slots=True)
class Session:
    """`said` are the options that a printed command line has to repeat."""

    provider: Provider
    credentials: Credentials
    out: Output
    said: tuple[str, ...] = ()

    def get(self, path: str, params: Params = ()) -> Json:
        """What the provider answers to the token; a `Failure` where it refuses."""
        return self.provider.get(path, params, bearer=self.bearer())

    def bearer(self) -> str:
        """The token for the next request."""
        return self.credentials.bearer(utc_now())

    def line(self, *words: str) -> str:
        """A `pdpp` command line that can be pasted into a shell."""
        return " ".join(map(_quoted, ["pdpp", *words, *self.said]))


def _quoted(word: str) -> str:
    """For a shell. What must not reach the terminal as it is stands there as bytes that bash and zsh
    read back."""
    if plain(word) == word:
        return shlex.quote(word)
    safe = {"\\": "\\\\", "'": "\\'"}
    said = (safe.get(each, each) if plain(each) == each else _bytes(each) for each in word)
    return f"$'{''.join(said)}'"


def _bytes(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode())


def command(run: Callable[..., Ran]) -> Callable[..., Ran]:
    """`run` with `--provider-url`, `--cache-root` and `--json` instead of its session."""

    @functools.wraps(run)
    def ran(
        *args: Any, provider_url: str | None, cache_root: Path | None, as_json: bool, **more: Any
    ) -> Ran:
        with http_client.opened() as client:
            session = opened(client, url=provider_url, root=cache_root, out=Output(as_json))
            return run(session, *args, **more)

    _declare(ran, run)
    return ran


def opened(client: httpx2.Client, *, url: str | None, root: Path | None, out: Output) -> Session:
    """The session over the provider that is meant; a `Failure` of usage where none is."""
    cache = opened_cache(environment(), root)
    found = chosen_url(environment(), cache, url)
    asked = Provider(found, client)
    credentials = Credentials(found, environment(), cache, renewing.over(asked))
    return Session(asked, credentials, out, _repeated(url, root))


def opened_cache(environment: Mapping[str, str], root: Path | None) -> Cache:
    """The cache at `root`, else where the environment says, else in the working directory."""
    named = environment.get("PDPP_CACHE_ROOT")
    return Cache(root or (Path(named) if named else None))


def chosen_url(environment: Mapping[str, str], cache: Cache, url: str | None) -> str:
    """The provider that an option, the environment or the cache names; exit code 64 otherwise."""
    named = url or environment.get("PDPP_PROVIDER_URL")
    if named:
        return normalized(named)
    known = cache.providers()
    if len(known) == 1:
        return known[0]
    raise usage(
        "No provider is named." if not known else f"{len(known)} providers are connected.",
        param="--provider-url",
        next_step=f"Pass --provider-url {known[0]}." if known else "pdpp connect URL",
    )


def environment() -> Mapping[str, str]:
    """The variables of the process."""
    return os.environ


def utc_now() -> datetime:
    """The clock of the command line."""
    return datetime.now(UTC)  # noqa: TID251 - the outermost caller is where the time comes from


def watched() -> bool:
    """Whether a person looks at the result as it is written."""
    return sys.stdout.isatty()


def _repeated(url: str | None, root: Path | None) -> tuple[str, ...]:
    said = () if url is None else ("--provider-url", url)
    return said if root is None else (*said, "--cache-root", str(root))


def _declare(ran: Callable[..., Any], run: Callable[..., Any]) -> None:
    """Typer reads parameters from the signature and the annotations."""
    shared = {"provider_url": (ProviderUrl, None), "cache_root": (CacheRoot, None),
              "as_json": (AsJson, False)}  # fmt: skip
    signature = inspect.signature(run)
    _, *own = signature.parameters.values()
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in shared.items()
    ]
    ran.__signature__ = signature.replace(parameters=[*own, *common])  # type: ignore[attr-defined]
    ran.__annotations__ = {each.name: each.annotation for each in [*own, *common]}
