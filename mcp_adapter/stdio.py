"""Serve MCP over standard input and output with one bearer token."""

from collections.abc import Callable

import anyio
from mcp.server.stdio import stdio_server

from mcp_adapter.rest import Rest
from mcp_adapter.server import ServerInfo, build_server
from mcp_adapter.streamable_http import thread_offload


def serve(rest: Rest, authenticate: Callable[[], object], *, server_info: ServerInfo) -> None:
    """Serve until standard input ends. Only the protocol is written to standard output.

    `authenticate` runs on every call, so that a revocation applies at once; it raises
    `TokenRejected`.
    """
    anyio.run(_serve, rest, authenticate, server_info)


async def _serve(rest: Rest, authenticate: Callable[[], object], server_info: ServerInfo) -> None:
    server = build_server(
        rest,
        authority_of=lambda _ctx: authenticate(),
        offload=thread_offload(2),
        server_info=server_info,
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
