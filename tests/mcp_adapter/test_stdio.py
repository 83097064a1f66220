"""The server process over standard input and output."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import ERAS, error_of, parsed_text, with_client
from tests.scenarios import scenario

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
MODULE = "tests.mcp_adapter.stdio_server"
INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"host","version":"1"}}}\n'
    '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


def run(work: Callable[[Client], Awaitable[Any]], *flags: str, era: str) -> Any:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", MODULE, *flags], cwd=str(ROOT)
    )

    async def main() -> Any:
        async with Client(server, mode=era) as client:
            return await work(client)

    return anyio.run(main)


@scenario("C2", "C3")
@pytest.mark.parametrize("era", ERAS)
def test_stdio_process_serves_the_same_tools(era: str) -> None:
    async def work(client: Client) -> tuple[Any, Any]:
        tools = (await client.list_tools()).tools
        return tools, await client.call_tool("search", {"q": "lease"})

    tools, result = run(work, era=era)

    assert tools == with_client(FakeRest(), lambda client: client.list_tools(), era=era).tools
    assert parsed_text(result)["results"][0]["id"] == "cin_work/messages:m1"


@pytest.mark.slow
def test_revoked_grant_fails_on_next_stdio_call() -> None:
    async def work(client: Client) -> tuple[Any, Any]:
        first = await client.call_tool("search", {"q": "lease"})
        return first, await client.call_tool("search", {"q": "lease"})

    first, second = run(work, "revoked-after-one", era=ERAS[0])

    assert not first.is_error
    assert error_of(second)["code"] == "grant_revoked"


def converse(requests: str, *, until: str) -> list[str]:
    """Return all lines of standard output; input ends after the reply that contains `until`."""
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(requests)
    process.stdin.flush()
    lines = []
    while not any(until in line for line in lines):
        lines.append(process.stdout.readline())
        assert lines[-1]
    rest, _ = process.communicate(timeout=60)
    return [*lines, *rest.splitlines()]


@pytest.mark.slow
def test_only_the_protocol_is_written_to_standard_output() -> None:
    requests = (
        f"{INITIALIZE}this is no JSON\n"
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"search",'
        '"arguments":{"q":"lease"}}}\n'
    )

    lines = converse(requests, until='"id":2')

    assert all(line.startswith('{"jsonrpc":"2.0"') for line in lines)


INVALID_LINES = {
    "this is no JSON": -32700,
    "[]": -32600,
    '{"jsonrpc":"2.0","id":5}': -32600,
    '{"jsonrpc":"2.0","id":null,"method":"tools/list"}': -32600,
    '{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}': -32600,
}


@pytest.mark.slow
def test_invalid_line_is_answered_and_the_next_one_served() -> None:
    pings = range(7, 7 + len(INVALID_LINES))
    requests = "".join(
        f'{line}\n{{"jsonrpc":"2.0","id":{ping},"method":"ping"}}\n'
        for line, ping in zip(INVALID_LINES, pings, strict=True)
    )

    lines = converse(INITIALIZE + requests, until=f'"id":{pings[-1]}')

    replies = [json.loads(reply) for reply in lines]
    for ping in pings:
        assert {"jsonrpc": "2.0", "id": ping, "result": {}} in replies
    errors = [(reply["id"], reply["error"]["code"]) for reply in replies if "error" in reply]
    assert errors == [(None, code) for code in INVALID_LINES.values()]
