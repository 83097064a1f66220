"""The real surface in a test: HTTP and stdio, both eras, the project's own REST API behind.

Blocking work goes to the thread that called `async_to_sync`, where the test's transaction is.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
from asgiref.sync import async_to_sync, sync_to_async
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.client.streamable_http import streamable_http_client

from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.server import Identity, build_server
from mcp_adapter.transport import McpEndpoint, TransportSettings, build
from pdpp_site import mcp

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
        mcp.authenticate,
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
        authority_of=lambda _ctx: mcp.authenticate(bearer),
        offload=in_the_test,
        identity=Identity(public_url=ORIGIN, version="1"),
    )
    async with Client(InMemoryTransport(server), mode=era) as client:
        yield client


def ask(
    bearer: str,
    work: Callable[[Client], Awaitable[Any]],
    *,
    way: str = "http",
    era: str = MODERN,
) -> Any:
    """Run `work` with an official client connected in that way and era."""
    connect = _http if way == "http" else _stdio

    async def main() -> Any:
        async with connect(bearer, era) as client:
            return await work(client)

    return async_to_sync(main)()


def call(bearer: str, tool: str, **arguments: Any) -> types.CallToolResult:
    """Call one tool on every surface: they all answer the same."""
    results = [
        ask(bearer, lambda client: client.call_tool(tool, arguments), way=way, era=era)
        for way, era in SURFACES
    ]
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
