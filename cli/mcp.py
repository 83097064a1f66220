"""`pdpp mcp`: serve MCP on standard input and output, over the REST API of a remote server.

Uses the credential of `pdpp connect` or PDPP_ACCESS_TOKEN and refuses owner credentials. Imports the
adapter after these checks, because its import takes most of the time until the first response.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated

import typer

from cli import errors, fast_imports, http_client
from cli.credentials import (
    Credentials,
    owner_credential_error,
    reject_owner_environment,
    token_refresher,
)
from cli.errors import CliError
from cli.http_client import ApiClient
from cli.session import CacheRoot, ProviderUrl, open_cache, select_provider_url, utc_now

SERVER_NAME = "pdpp-mcp-server"
CLIENT_TOKEN_PREFIX = "pdpp_at_"  # noqa: S105 - a prefix, not a token
NAME = typer.Option(
    "--server-name", help=f"MCP server name; default: PDPP_MCP_SERVER_NAME, or {SERVER_NAME}."
)


def mcp(
    *,
    provider_url: ProviderUrl = None,
    cache_root: CacheRoot = None,
    server_name: Annotated[str | None, NAME] = None,
) -> None:
    """Serve MCP on standard input and output, for one agent."""
    reject_owner_environment(os.environ)
    credential_cache = open_cache(os.environ, cache_root)
    url = select_provider_url(os.environ, credential_cache, provider_url)
    with contextlib.ExitStack() as stack:
        # Most agents never need this client: it refreshes tokens and checks foreign ones.
        api = cache(lambda: ApiClient(url, stack.enter_context(http_client.open_client())))
        credentials = Credentials(
            url, os.environ, credential_cache, lambda entry: token_refresher(api())(entry)
        )
        credentials.unexpired(utc_now())
        serve(Bearer(api, credentials), url, name=server_name)


@dataclass(slots=True)
class Bearer:
    """Provide the token of each call, so that a refreshed or deleted token applies at once."""

    api: Callable[[], ApiClient]
    credentials: Credentials
    checked: set[str] = field(default_factory=set)

    def __call__(self) -> str:
        """Return the token. Raises CliError if there is none that an agent may use."""
        bearer = self.credentials.bearer(utc_now())
        if bearer not in self.checked:
            self._reject_owner_token(bearer)
            self.checked.add(bearer)
        return bearer

    def _reject_owner_token(self, bearer: str) -> None:
        # Tokens of other implementations have no known prefix, so their server is asked once.
        if bearer.startswith(CLIENT_TOKEN_PREFIX):
            return
        info = self.api().get("/v1/schema", bearer=bearer).get("bearer")
        if isinstance(info, dict) and info.get("token_kind") == "owner":
            raise owner_credential_error("The credential")


def serve(bearer: Bearer, url: str, *, name: str | None) -> None:
    """Serve MCP until standard input ends."""
    with fast_imports():
        from mcp_adapter import stdio
        from mcp_adapter.rest import HttpRest, TokenRejected
        from mcp_adapter.server import ServerInfo

    def authenticate() -> str:
        try:
            return bearer()
        except CliError as error:
            status = 503 if error.exit_code == errors.UNAVAILABLE else 401
            raise TokenRejected(
                status, {"type": "authentication_error"} | error.body["error"]
            ) from None

    server_name = name or os.environ.get("PDPP_MCP_SERVER_NAME") or SERVER_NAME
    stdio.serve(
        HttpRest(url), authenticate, server_info=ServerInfo(public_url=url, name=server_name)
    )
