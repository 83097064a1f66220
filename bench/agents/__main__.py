"""`make agent-eval`: answer the demo questions with scripted agents in several MCP hosts."""

import asyncio
import sys
from collections.abc import Sequence

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from bench import results
from bench.agents.hosts import KINDS, CountingHost, Host, McpHost, RestHost
from bench.agents.policy import answer
from bench.agents.questions import Question, load
from bench.agents.report import Attempt, attempt_line, summarize, table
from bench.served import DemoServer, demo_installation

REST = "raw REST"


def main() -> int:
    """Return 0 if every MCP host meets the targets, otherwise 1."""
    ids = sys.argv[1:]
    questions = [question for question in load() if not ids or question.id in ids]
    with demo_installation() as served:
        attempts = asyncio.run(_evaluate(served, questions))
    summaries = [summarize(host, made) for host, made in attempts.items()]
    kinds = dict.fromkeys(question.kind for question in questions)
    by_kind = [summarize("content", attempts["content"], kind=kind) for kind in kinds]
    printed = table([*by_kind, *summaries])
    sys.stdout.write(f"\n{printed}")
    if not ids:
        results.write("Cost of an answer for an agent", printed)
    missed = [each.host for each in summaries if each.host != REST and not each.meets_targets]
    if missed:
        sys.stdout.write(f"\nBelow the targets: {', '.join(missed)}\n")
    return 1 if missed else 0


async def _evaluate(served: DemoServer, questions: Sequence[Question]) -> dict[str, list[Attempt]]:
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
        return {name: await _evaluate_host(name, host, questions) for name, host in hosts}


async def _evaluate_host(name: str, host: Host, questions: Sequence[Question]) -> list[Attempt]:
    attempts = []
    for question in questions:
        counting_host = CountingHost(host)
        is_answered = await answer(question, counting_host)
        attempt = Attempt(
            name,
            question.id,
            question.kind,
            is_answered,
            counting_host.calls,
            counting_host.seen_bytes,
        )
        sys.stdout.write(attempt_line(attempt))
        attempts.append(attempt)
    return attempts


if __name__ == "__main__":
    sys.exit(main())
