"""`make agent-eval`: put the demo questions to scripted agents behind hosts of every kind."""

import asyncio
import sys
from collections.abc import Sequence

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from bench.agents.hosts import KINDS, Counted, Host, McpHost, RestHost
from bench.agents.policy import answer
from bench.agents.questions import Question, load
from bench.agents.report import Attempt, Summary, line, summarised, table
from bench.served import Served, demo_installation

REST = "raw REST"


def main() -> int:
    """0 if every MCP host meets the targets, 1 otherwise."""
    wanted = sys.argv[1:]
    questions = [each for each in load() if not wanted or each.id in wanted]
    with demo_installation() as served:
        summaries = asyncio.run(_evaluated(served, questions))
    sys.stdout.write(f"\n{table(summaries)}")
    missed = [each.host for each in summaries if each.host != REST and not each.on_target]
    if missed:
        sys.stdout.write(f"\nBelow the targets: {', '.join(missed)}\n")
    return 1 if missed else 0


async def _evaluated(served: Served, questions: Sequence[Question]) -> list[Summary]:
    mcp = httpx2.AsyncClient(headers={"Authorization": f"Bearer {served.mcp_token}"}, timeout=60)
    rest = httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {served.rest_token}"}, base_url=served.url, timeout=60
    )
    async with (
        mcp,
        rest,
        Client(streamable_http_client(f"{served.url}/mcp", http_client=mcp)) as client,
    ):
        hosts: list[tuple[str, Host]] = [(kind, McpHost(client, kind)) for kind in KINDS]
        hosts.append((REST, RestHost(rest)))
        return [await _put(name, host, questions) for name, host in hosts]


async def _put(name: str, host: Host, questions: Sequence[Question]) -> Summary:
    attempts = []
    for question in questions:
        counted = Counted(host)
        answered = await answer(question, counted)
        attempt = Attempt(name, question.id, answered, counted.calls, counted.seen_bytes)
        sys.stdout.write(line(attempt))
        attempts.append(attempt)
    return summarised(name, attempts)


if __name__ == "__main__":
    sys.exit(main())
