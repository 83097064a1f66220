"""MCP hosts for tests: the official client in both eras, and the channels that hosts show."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.server.lowlevel import Server

from mcp_adapter.rest import Rest
from mcp_adapter.server import ServerInfo, build_server

ERAS = ("2026-07-28", "legacy")
PUBLIC_URL = "https://records.example"
AUTHORITY = object()


async def run_inline(work: Callable[[], Any]) -> Any:
    """Run blocking work on the event loop, where nothing else waits in a test."""
    return work()


def server(rest: Rest) -> Server[Any]:
    """Return the real MCP server over a REST API."""
    return build_server(
        rest,
        authority_of=lambda _ctx: AUTHORITY,
        offload=run_inline,
        server_info=ServerInfo(public_url=PUBLIC_URL, version="1"),
    )


def with_client(rest: Rest, work: Callable[[Client], Awaitable[Any]], *, era: str = ERAS[0]) -> Any:
    """Run `work` with a connected official client."""

    async def main() -> Any:
        async with Client(server(rest), mode=era) as client:
            return await work(client)

    return anyio.run(main)


def call(rest: Rest, tool: str, *, era: str = ERAS[0], **arguments: Any) -> types.CallToolResult:
    """Call one tool."""
    result = with_client(rest, lambda client: client.call_tool(tool, arguments), era=era)
    assert isinstance(result, types.CallToolResult)
    return result


def text_of(result: types.CallToolResult) -> str:
    """Return the only text block, which some hosts show alone."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def parsed_text(result: types.CallToolResult) -> dict[str, Any]:
    """Return the text block parsed as a JSON object."""
    value = json.loads(text_of(result))
    assert isinstance(value, dict)
    return value


def structured(result: types.CallToolResult) -> dict[str, Any]:
    """Return the structured output, which other hosts show alone."""
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def error_of(result: types.CallToolResult) -> dict[str, Any]:
    """Return the error of a failed call, asserting that both channels are equal."""
    assert result.is_error
    assert parsed_text(result) == structured(result)
    error = structured(result)["error"]
    assert isinstance(error, dict)
    return error
