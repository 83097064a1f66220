"""MCP hosts for tests: the official client in both eras, and what each kind of host can see."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.server.lowlevel import Server

from mcp_adapter.rest import Rest
from mcp_adapter.server import Identity, build_server

ERAS = ("2026-07-28", "legacy")
PUBLIC_URL = "https://records.example"
AUTHORITY = object()


async def inline(work: Callable[[], Any]) -> Any:
    """Run blocking work where it stands: nothing else waits in a test."""
    return work()


def server(rest: Rest) -> Server[Any]:
    """The real server over any resource server."""
    return build_server(
        rest,
        authority_of=lambda _ctx: AUTHORITY,
        offload=inline,
        identity=Identity(public_url=PUBLIC_URL, version="1"),
    )


def ask(rest: Rest, work: Callable[[Client], Awaitable[Any]], *, era: str = ERAS[0]) -> Any:
    """Run `work` with a connected official client."""

    async def main() -> Any:
        async with Client(server(rest), mode=era) as client:
            return await work(client)

    return anyio.run(main)


def call(rest: Rest, tool: str, *, era: str = ERAS[0], **arguments: Any) -> types.CallToolResult:
    """Call one tool."""
    result = ask(rest, lambda client: client.call_tool(tool, arguments), era=era)
    assert isinstance(result, types.CallToolResult)
    return result


def text_of(result: types.CallToolResult) -> str:
    """The one text block, which is all that some hosts see."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def seen(result: types.CallToolResult) -> dict[str, Any]:
    """The text block as the JSON object it has to be."""
    value = json.loads(text_of(result))
    assert isinstance(value, dict)
    return value


def structured(result: types.CallToolResult) -> dict[str, Any]:
    """The structured output, which is all that other hosts see."""
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def refusal(result: types.CallToolResult) -> dict[str, Any]:
    """The error of a failed call, which has to be the same in both channels."""
    assert result.is_error
    assert seen(result) == structured(result)
    error = structured(result)["error"]
    assert isinstance(error, dict)
    return error
