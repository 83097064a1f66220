"""The strategy of the scripted agent.

It searches, fetches the best new hits, continues long documents, and tries its other search words; or it
looks up the stream, makes the call that answers, and reads on by the `next` of its result. It recognizes an answer when it sees one, but does not know which record contains it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from bench.agents.hosts import CountingHost
from bench.agents.questions import Question

MAX_CALLS = 12
_FETCHES_PER_SEARCH = 3
_ID = re.compile(r'"id":\s?"(cin_[^"/]+/[^":]+:[^"]+)"')
_NEXT = re.compile(r'"next":\s?(\{"tool":"read_record_field","args":\{[^{}]*\}\})')


async def answer(question: Question, host: CountingHost) -> bool:
    """Return whether the agent sees the answer within MAX_CALLS calls."""
    if question.call is not None:
        return await _call(question, host, *question.call)
    if question.aggregate:
        arguments = {name: value for name, value in question.aggregate.items() if name != "number"}
        return await _call(question, host, "aggregate", arguments)
    return await _search(question, host)


async def _call(
    question: Question, host: CountingHost, tool: str, arguments: Mapping[str, Any]
) -> bool:
    """Look up the stream, make the call, and go on with the next pages until the answer is seen."""
    if tool != "search":
        names = ("stream", "connection_id")
        await host.ask("schema", {name: arguments[name] for name in names})
    step: Mapping[str, Any] | None = {"tool": tool, "args": arguments}
    while step is not None and host.calls < MAX_CALLS:
        view = await host.ask(step["tool"], step["args"])
        if question.answered(host.seen):
            return True
        step = _next_page(view, tool, arguments)
    return False


def _next_page(view: str, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the call for the next page. REST responses contain only its cursor."""
    try:
        page = json.loads(view)
    except ValueError:
        return None
    step = page.get("next")
    if step is not None or not page.get("next_cursor"):
        return step.get("page") if step else None
    return {"tool": tool, "args": {**arguments, "cursor": page["next_cursor"]}}


async def _search(question: Question, host: CountingHost) -> bool:
    fetched: set[str] = set()
    for words in (*question.searches, *question.searches):
        # The second round with the same words fetches the remaining hits.
        ids = _record_ids(await host.ask("search", {"q": words}))
        for record_id in [each for each in ids if each not in fetched][:_FETCHES_PER_SEARCH]:
            if question.answered(host.seen) or host.calls >= MAX_CALLS:
                break
            fetched.add(record_id)
            await _fetch(question, host, record_id)
        if question.answered(host.seen) or host.calls >= MAX_CALLS:
            break
    return question.answered(host.seen)


async def _fetch(question: Question, host: CountingHost, record_id: str) -> None:
    view = await host.ask("fetch", {"id": record_id})
    next_call = _NEXT.search(view)
    if next_call and not question.answered(host.seen) and host.calls < MAX_CALLS:
        step = json.loads(next_call[1])
        await host.ask(step["tool"], step["args"])


def _record_ids(view: str) -> list[str]:
    """Return the record ids in a view. REST responses contain only their parts."""
    if ids := list(dict.fromkeys(_ID.findall(view))):
        return ids
    try:
        hits = json.loads(view)["data"]
    except (ValueError, KeyError, TypeError):
        return []
    return [f"{hit['connection_id']}/{hit['stream']}:{hit['record_key']}" for hit in hits]
