"""Serve MCP over standard input and output with one bearer token."""

from collections.abc import AsyncIterable, Callable

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage

from mcp_adapter.jsonrpc import check_line
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
    async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as tasks:
        send, valid = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        tasks.start_soon(_pass_valid, incoming, send, outgoing)
        await server.run(valid, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _pass_valid(
    incoming: AsyncIterable[SessionMessage | Exception],
    send: MemoryObjectSendStream[SessionMessage | Exception],
    outgoing: WriteStream[SessionMessage],
) -> None:
    """Pass messages on, and answer lines that are none."""
    async with send:
        async for line in incoming:
            error = check_line(line)
            if error is None:
                await send.send(line)
            else:
                await outgoing.send(error)
