"""How the scripted agent goes about a question.

It searches, opens the best hits it has not opened, reads on where a document says that it goes on,
and tries its other words. It knows what to type and, like a model, recognises an answer when it
sees one; it never knows which record holds it.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from bench.agents.hosts import Counted
from bench.agents.questions import Question

MOST_CALLS = 12
_OPENED_PER_SEARCH = 3
_ID = re.compile(r'"id":\s?"(cin_[^"/]+/[^":]+:[^"]+)"')
_NEXT = re.compile(r'"next":\s?(\{"tool":"read_record_field","args":\{[^{}]*\}\})')


async def answer(question: Question, host: Counted) -> bool:
    """Whether the answer came into view within the calls that a patient person would wait for."""
    steps = _aggregated(question) if question.aggregate else None
    if steps is not None:
        for tool, arguments in steps:
            await host.ask(tool, arguments)
        return question.answered(host.seen)
    return await _searched(question, host)


def _aggregated(question: Question) -> Iterator[tuple[str, dict[str, Any]]]:
    """Look up the stream, then ask for the number."""
    asked = {name: value for name, value in question.aggregate.items() if name != "number"}
    yield "schema", {"stream": asked["stream"], "connection_id": asked["connection_id"]}
    yield "aggregate", asked


async def _searched(question: Question, host: Counted) -> bool:
    opened: set[str] = set()
    for words in (*question.searches, *question.searches):
        # A second round of the same words opens the hits that the first left closed.
        found = _ids(await _ask(host, "search", {"q": words}))
        for shown in [each for each in found if each not in opened][:_OPENED_PER_SEARCH]:
            if question.answered(host.seen) or host.calls >= MOST_CALLS:
                break
            opened.add(shown)
            await _opened(question, host, shown)
        if question.answered(host.seen) or host.calls >= MOST_CALLS:
            break
    return question.answered(host.seen)


async def _opened(question: Question, host: Counted, shown: str) -> None:
    view = await _ask(host, "fetch", {"id": shown})
    onward = _NEXT.search(view)
    if onward and not question.answered(host.seen) and host.calls < MOST_CALLS:
        step = json.loads(onward[1])
        await _ask(host, step["tool"], step["args"])


async def _ask(host: Counted, tool: str, arguments: dict[str, Any]) -> str:
    return await host.ask(tool, arguments)


def _ids(view: str) -> list[str]:
    """The handles in view; a reader of REST puts them together from their parts."""
    if shown := list(dict.fromkeys(_ID.findall(view))):
        return shown
    try:
        hits = json.loads(view)["data"]
    except (ValueError, KeyError, TypeError):
        return []
    return [f"{hit['connection_id']}/{hit['stream']}:{hit['record_key']}" for hit in hits]
