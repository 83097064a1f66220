"""The real endpoint in a test: HTTP in, the project's own REST API behind, the test's database.

Blocking work goes to the thread that called `async_to_sync`, where the test's transaction is.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import mcp_types as types
from asgiref.sync import async_to_sync, sync_to_async
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.server import Identity
from mcp_adapter.transport import McpEndpoint, TransportSettings, build
from pdpp_site import mcp

ORIGIN = "https://records.example"
URL = f"{ORIGIN}/mcp"


async def in_the_test(work: Callable[[], Any]) -> Any:
    """Run blocking work on the thread of the test."""
    return await sync_to_async(work, thread_sensitive=True)()


def endpoint() -> McpEndpoint:
    """The endpoint as the site wires it, on the test's thread."""
    return build(
        InProcessRest(),
        mcp.authenticate,
        settings=TransportSettings(
            identity=Identity(public_url=ORIGIN, version="1"),
            resource_metadata_url=f"{ORIGIN}/.well-known/oauth-protected-resource/mcp",
            allowed_hosts=("records.example",),
            offload=in_the_test,
        ),
    )


def ask(bearer: str, work: Callable[[Client], Awaitable[Any]], *, era: str = "2026-07-28") -> Any:
    """Run `work` with an official client connected over HTTP."""

    async def main() -> Any:
        served = endpoint()
        async with (
            served.lifespan(),
            httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app=served.app),
                headers={"Authorization": f"Bearer {bearer}"},
            ) as http,
            Client(streamable_http_client(URL, http_client=http), mode=era) as client,
        ):
            return await work(client)

    return async_to_sync(main)()


def call(
    bearer: str, tool: str, *, era: str = "2026-07-28", **arguments: Any
) -> types.CallToolResult:
    """Call one tool through the real endpoint."""
    result = ask(bearer, lambda client: client.call_tool(tool, arguments), era=era)
    assert isinstance(result, types.CallToolResult)
    return result
