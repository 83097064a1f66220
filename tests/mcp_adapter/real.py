"""The real surface in a test: HTTP and stdio, both eras, the project's own REST API behind.

Blocking work goes to the thread that called `async_to_sync`, where the test's transaction is.
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
from mcp_adapter.server import Identity, build_server
from mcp_adapter.streamable_http import McpEndpoint, TransportSettings, build
from pdpp_site import mcp_endpoints

ORIGIN = "https://records.example"
URL = f"{ORIGIN}/mcp"
MODERN, LEGACY = "2026-07-28", "legacy"
SURFACES = tuple((way, era) for way in ("http", "stdio") for era in (MODERN, LEGACY))
_DIFFERS = frozenset({"request_id", "next_cursor", "next_changes_since", "links", "_meta"})


async def in_the_test(work: Callable[[], Any]) -> Any:
    """Run blocking work on the thread of the test."""
    return await sync_to_async(work, thread_sensitive=True)()


def endpoint() -> McpEndpoint:
    """The endpoint as the site wires it, on the test's thread."""
    return build(
        InProcessRest(),
        mcp_endpoints.authenticate,
        settings=TransportSettings(
            identity=Identity(public_url=ORIGIN, version="1"),
            resource_metadata_url=f"{ORIGIN}/.well-known/oauth-protected-resource/mcp",
            allowed_hosts=("records.example",),
            offload=in_the_test,
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
    """The loop that stdio runs, over streams in memory instead of pipes."""
    server = build_server(
        InProcessRest(),
        authority_of=lambda _ctx: mcp_endpoints.authenticate(bearer),
        offload=in_the_test,
        identity=Identity(public_url=ORIGIN, version="1"),
    )
    async with Client(InMemoryTransport(server), mode=era) as client:
        yield client


def _connected(bearer: str, *, way: str, era: str) -> AbstractAsyncContextManager[Client]:
    return _http(bearer, era) if way == "http" else _stdio(bearer, era)


def post(bearer: str) -> httpx2.Response:
    """One bare request with that bearer, for what the client's own errors do not show."""

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
    """Run `work` with an official client connected in that way and era."""

    async def main() -> Any:
        async with _connected(bearer, way=way, era=era) as client:
            return await work(client)

    return async_to_sync(main)()


def call(bearer: str, tool: str, **arguments: Any) -> types.CallToolResult:
    """Call one tool on every surface: they all answer the same."""

    async def everywhere() -> list[types.CallToolResult]:
        found = []
        for way, era in SURFACES:
            async with _connected(bearer, way=way, era=era) as client:
                found.append(await client.call_tool(tool, arguments))
        return found

    results = async_to_sync(everywhere)()
    first = results[0]
    assert isinstance(first, types.CallToolResult)
    for surface, result in zip(SURFACES, results, strict=True):
        assert comparable(result) == comparable(first), surface
    return first


def comparable(result: types.CallToolResult) -> Any:
    """Both channels without what differs from one request to the next."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return (
        result.is_error,
        _steady(json.loads(block.text)),
        _steady(result.structured_content),
    )


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: None if name in _DIFFERS else _steady(inner) for name, inner in value.items()}
    return [_steady(inner) for inner in value] if isinstance(value, list) else value
