"""Serve MCP over standard input and output with one bearer token."""

import threading
from collections.abc import AsyncIterable, Callable

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from mcp_adapter.rest import Rest
from mcp_adapter.server import ServerInfo, build_server
from mcp_adapter.streamable_http import INVALID_ID, thread_offload


def serve(rest: Rest, authenticate: Callable[[], object], *, server_info: ServerInfo) -> None:
    """Serve until standard input ends. Only the protocol is written to standard output.

    `authenticate` runs on every call, so that a revocation applies at once; it raises
    `TokenRejected`.
    """
    # A signal ends the waiting main thread. In the loop, a SIGTERM while standard input ends would cancel a
    # task for ever, and the process would never exit.
    failures: list[BaseException] = []

    def run() -> None:
        try:
            anyio.run(_serve, rest, authenticate, server_info)
        except BaseException as error:  # noqa: BLE001 - raised again by the main thread
            failures.append(error)

    thread = threading.Thread(target=run, name="mcp", daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


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


def check_line(line: SessionMessage | Exception) -> SessionMessage | None:
    """Return the error of one line of standard input, or None.

    The SDK takes a request with an invalid id for a notification; those of MCP have names of their
    own.
    """
    if isinstance(line, ValidationError):
        is_json = line.errors(include_url=False)[0]["type"] != "json_invalid"
        if is_json:
            return _error_line(types.INVALID_REQUEST, "The line is no JSON-RPC message.")
        return _error_line(types.PARSE_ERROR, "The line is no JSON.")
    if isinstance(line, Exception) or not isinstance(line.message, types.JSONRPCNotification):
        return None
    is_notification = line.message.method.startswith("notifications/")
    return None if is_notification else _error_line(types.INVALID_REQUEST, INVALID_ID)


def _error_line(code: int, message: str) -> SessionMessage:
    error = types.ErrorData(code=code, message=message)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=None, error=error))
