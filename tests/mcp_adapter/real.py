"""The real surface over HTTP and stdio, in both eras, with the real REST API.

Blocking work runs on the thread that called `async_to_sync`, which has the test's transaction.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
from asgiref.sync import async_to_sync, sync_to_async
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.client.streamable_http import streamable_http_client

from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.server import ServerInfo, build_server
from mcp_adapter.streamable_http import McpEndpoint, TransportSettings, build_endpoint
from pdpp_site import asgi_app

ORIGIN = "https://records.example"
URL = f"{ORIGIN}/mcp"
MODERN, LEGACY = "2026-07-28", "legacy"
SURFACES = tuple((way, era) for way in ("http", "stdio") for era in (MODERN, LEGACY))
_VOLATILE = frozenset(
    {"request_id", "next_cursor", "next_changes_since", "cursor", "changes_since", "links", "_meta"}
)


async def run_in_test_thread(work: Callable[[], Any]) -> Any:
    """Run blocking work on the thread of the test."""
    return await sync_to_async(work, thread_sensitive=True)()


def endpoint() -> McpEndpoint:
    """Build the endpoint as the site does, with tools on the test's thread."""
    return build_endpoint(
        InProcessRest(),
        asgi_app.authenticate,
        settings=TransportSettings(
            server_info=ServerInfo(public_url=ORIGIN, version="1"),
            resource_metadata_url=lambda _host: (
                f"{ORIGIN}/.well-known/oauth-protected-resource/mcp"
            ),
            offload=run_in_test_thread,
        ),
    )


@asynccontextmanager
async def _http(bearer: str, era: str) -> AsyncIterator[Client]:
    served = endpoint()
    async with (
        served.lifespan(),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=served.app),
            headers={"Authorization": f"Bearer {bearer}"},
        ) as http,
        Client(streamable_http_client(URL, http_client=http), mode=era) as client,
    ):
        yield client


@asynccontextmanager
async def _stdio(bearer: str, era: str) -> AsyncIterator[Client]:
    """Run the stdio server over streams in memory."""
    server = build_server(
        InProcessRest(),
        authority_of=lambda _ctx: asgi_app.authenticate(bearer),
        offload=run_in_test_thread,
        server_info=ServerInfo(public_url=ORIGIN, version="1"),
    )
    async with Client(InMemoryTransport(server), mode=era) as client:
        yield client


def _connected(bearer: str, *, way: str, era: str) -> AbstractAsyncContextManager[Client]:
    return _http(bearer, era) if way == "http" else _stdio(bearer, era)


def post(bearer: str) -> httpx2.Response:
    """Send one plain request, to see the HTTP response that the client hides."""

    async def main() -> httpx2.Response:
        served = endpoint()
        transport = httpx2.ASGITransport(app=served.app)
        async with served.lifespan(), httpx2.AsyncClient(transport=transport) as http:
            return await http.post(
                URL,
                json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
                headers={"Authorization": f"Bearer {bearer}", "Accept": "application/json"},
            )

    return async_to_sync(main)()


def ask(
    bearer: str,
    work: Callable[[Client], Awaitable[Any]],
    *,
    way: str = "http",
    era: str = MODERN,
) -> Any:
    """Run `work` with a connected official client."""

    async def main() -> Any:
        async with _connected(bearer, way=way, era=era) as client:
            return await work(client)

    return async_to_sync(main)()


def call(bearer: str, tool: str, **arguments: Any) -> types.CallToolResult:
    """Call one tool on every surface, asserting equal results."""

    async def everywhere() -> list[types.CallToolResult]:
        call_results = []
        for way, era in SURFACES:
            async with _connected(bearer, way=way, era=era) as client:
                call_results.append(await client.call_tool(tool, arguments))
        return call_results

    results = async_to_sync(everywhere)()
    first = results[0]
    assert isinstance(first, types.CallToolResult)
    for surface, result in zip(SURFACES, results, strict=True):
        assert comparable(result) == comparable(first), surface
    return first


def comparable(result: types.CallToolResult) -> Any:
    """Return both channels without members that differ between requests."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return (
        result.is_error,
        _without_volatile(json.loads(block.text)),
        _without_volatile(result.structured_content),
    )


def _without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: None if name in _VOLATILE else _without_volatile(member)
            for name, member in value.items()
        }
    return [_without_volatile(member) for member in value] if isinstance(value, list) else value
