"""`pdpp mcp`: the MCP surface on standard input and output, over the REST API of a remote server.

The credential is the one that `pdpp connect` keeps, or PDPP_ACCESS_TOKEN; an owner's is refused. The
adapter is imported when all that is settled: it takes most of the time until the first answer.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache as cached
from typing import Annotated

import typer

from cli import credentials as renewing
from cli import errors, http_client
from cli.credentials import Credentials, owners, refuse_owners
from cli.errors import Failure
from cli.fast_imports import imported_fast
from cli.http_client import Provider
from cli.session import CacheRoot, ProviderUrl, chosen_url, opened_cache, utc_now

SERVER_NAME = "pdpp-mcp-server"
CLIENT_TOKEN_PREFIX = "pdpp_at_"  # noqa: S105 - the mark of a client's token, not a token
NAME = typer.Option(
    "--server-name", help=f"What it calls itself: else PDPP_MCP_SERVER_NAME, else {SERVER_NAME}."
)


def mcp(
    *,
    provider_url: ProviderUrl = None,
    cache_root: CacheRoot = None,
    server_name: Annotated[str | None, NAME] = None,
) -> None:
    """Serve MCP on standard input and output, for one agent."""
    refuse_owners(os.environ)
    cache = opened_cache(os.environ, cache_root)
    url = chosen_url(os.environ, cache, provider_url)
    with contextlib.ExitStack() as stack:
        # Opened when it is needed, which for most agents is never.
        asked = cached(lambda: Provider(url, stack.enter_context(http_client.opened())))
        credentials = Credentials(
            url, os.environ, cache, lambda entry: renewing.over(asked())(entry)
        )
        credentials.check(utc_now())
        serve(Authority(asked, credentials), url, name=server_name)


@dataclass(slots=True)
class Authority:
    """The bearer of each call, asked for anew: a renewed or forgotten one counts at once."""

    provider: Callable[[], Provider]
    credentials: Credentials
    known: set[str] = field(default_factory=set)

    def __call__(self) -> str:
        """The bearer; a `Failure` where there is none that an agent may have."""
        bearer = self.credentials.bearer(utc_now())
        if bearer not in self.known:
            self._check(bearer)
            self.known.add(bearer)
        return bearer

    def _check(self, bearer: str) -> None:
        """Whose a token is shows in ours; other servers are asked, once."""
        if bearer.startswith(CLIENT_TOKEN_PREFIX):
            return
        told = self.provider().get("/v1/schema", bearer=bearer).get("bearer")
        if isinstance(told, dict) and told.get("token_kind") == "owner":
            raise owners("The credential")


def serve(authority: Authority, url: str, *, name: str | None) -> None:
    """Serve until standard input ends."""
    with imported_fast():
        from mcp_adapter import stdio
        from mcp_adapter.rest import HttpRest, Refused
        from mcp_adapter.server import Identity

    def authenticate() -> str:
        try:
            return authority()
        except Failure as failure:
            status = 503 if failure.exit_code == errors.UNAVAILABLE else 401
            raise Refused(
                status, {"type": "authentication_error"} | failure.body["error"]
            ) from None

    named = name or os.environ.get("PDPP_MCP_SERVER_NAME") or SERVER_NAME
    stdio.serve(HttpRest(url), authenticate, identity=Identity(public_url=url, name=named))
