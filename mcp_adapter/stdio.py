"""The same server over standard input and output, for the one bearer of its environment."""

from collections.abc import Callable

import anyio
from mcp.server.stdio import stdio_server

from mcp_adapter.rest import Rest
from mcp_adapter.server import Identity, build_server
from mcp_adapter.streamable_http import threads


def serve(rest: Rest, authenticate: Callable[[], object], *, identity: Identity) -> None:
    """Serve until standard input ends. Nothing but the protocol is written to standard output.

    `authenticate` is asked on every call, so that a revoked grant ends at once; it raises `Refused`.
    """
    anyio.run(_serve, rest, authenticate, identity)


async def _serve(rest: Rest, authenticate: Callable[[], object], identity: Identity) -> None:
    server = build_server(
        rest, authority_of=lambda _ctx: authenticate(), offload=threads(2), identity=identity
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
