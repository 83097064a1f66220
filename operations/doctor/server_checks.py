"""With a token: the list of tools, a search, and the document it found."""

import json
from typing import Any

from operations.doctor.findings import Side, Unseen, Wrong, doubtful, wrong
from operations.doctor.http_probe import Answer
from operations.doctor.probe import HELLO, State, own
from operations.doctor.proxies import body_limit

EXPECTED = {"schema", "query_records", "aggregate", "search", "fetch", "read_record_field"}
COMMON = "the OR and OR for OR with OR und OR die OR de OR la OR 的 OR の"
"""Words that almost any records hold one of."""
_VERSION = "2025-06-18"


def listed(state: State) -> str:
    """tools/list, whole."""
    tools = {str(tool.get("name")) for tool in _call(state, "tools/list", {}).get("tools", ())}
    if missing := sorted(EXPECTED - tools):
        raise wrong(
            "tools_missing",
            Side.SERVER,
            seen=f"tools/list lacks {', '.join(missing)}",
            change="Is this the MCP endpoint of this server? Another one may answer at the address.",
        )
    return f"{len(tools)} tools"


def searched(state: State) -> str:
    """A search over everything that the grant covers."""
    result = _tool(state, "search", q=COMMON, limit=1)
    results = result.get("results") or ()
    state.found = str(results[0].get("id", "")) if results else ""
    return "The search found something" if state.found else "The search works, and found nothing"


def fetched(state: State) -> str:
    """The first hit, as a document."""
    if not state.found:
        return "Nothing was found that could be fetched"
    document = _tool(state, "fetch", id=state.found)
    if set(document) != {"id", "title", "text", "url", "metadata"}:
        raise wrong(
            "fetch_altered",
            Side.SERVER,
            seen="The document does not have the five members that hosts expect",
            change="Update the server.",
        )
    return "The document came whole"


def _tool(state: State, name: str, **arguments: Any) -> dict[str, Any]:
    """The JSON in the text of a result; its content is never shown."""
    result = _call(state, "tools/call", {"name": name, "arguments": arguments})
    text = next((part.get("text", "") for part in result.get("content", ())), "")
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    if result.get("isError") or not isinstance(body, dict):
        error = body.get("error", {}) if isinstance(body, dict) else {}
        raise wrong(
            "tool_failed",
            Side.SERVER,
            seen=f"{name} failed: {error.get('code')}: {error.get('message')}",
            change=str(error.get("next_step") or "Look into the log of the server."),
        )
    return body


def _call(state: State, method: str, params: dict[str, Any]) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
    headers = {"authorization": f"Bearer {state.bearer}", "mcp-protocol-version": _VERSION}
    answer = own(state.asking.post(state.url, message, **headers))
    body = answer.json or {}
    if answer.status in {401, 403}:
        raise wrong(
            "token_refused",
            Side.CLIENT,
            seen=f"The token is refused: {answer.in_words}",
            change="It has ended, was revoked, or is for another resource; connect the host anew.",
        )
    result = body.get("result")
    if answer.status != 200 or not isinstance(result, dict):
        raise wrong(
            "call_failed",
            Side.SERVER,
            seen=f"{method} got {answer.in_words}",
            change="Look into the log of the server; a proxy may also drop the header "
            "MCP-Protocol-Version.",
        )
    return result


def goes_on(state: State) -> str:
    """The server's own word for it, which a proxy need not forward."""
    try:
        said = _asked(state).json or {}
    except Wrong:
        said = {}
    if said.get("status") != "ready":
        raise Unseen(
            "/readyz does not say from here; ask it on the server's own machine, or walk to there."
        )
    if "warning" in said:
        raise doubtful(
            "work_waits",
            Side.SERVER,
            seen=str(said["warning"]),
            change="Keep one server running without PDPP_BACKGROUND=false (manage.py run). Where one "
            "runs, its log says what fails.",
        )
    return "Somebody does what goes on beside requests"


def _asked(state: State) -> Answer:
    return state.asking.get(f"{state.origin}/readyz")


BODY_CHARS = 200_000
"""More than any call of a tool has, and less than the megabyte that the server takes."""


def large_bodies(state: State) -> str:
    """A body of ordinary size arrives; without a token it is refused only for that."""
    padded = {**HELLO, "params": {**HELLO["params"], "padding": "x" * BODY_CHARS}}
    answer = state.asking.post(state.url, padded)
    if answer.status == 413:
        raise body_limit(answer)
    own(answer)
    return f"A body of {BODY_CHARS // 1000} kB arrives"


def unaltered(state: State) -> str:
    """Answers come as they were asked for."""
    answer = own(state.hello())
    encoding = answer.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise doubtful(
            "compressed",
            Side.PROXY,
            seen=f"Answers are compressed ({encoding}) though nobody asked for it",
            change="Compress only what is asked for, and nothing under /mcp and /v1.",
        )
    if answer.status == 401 and answer.json is None:
        raise doubtful(
            "body_replaced",
            Side.PROXY,
            seen=f"The body of the refusal is not the server's: {answer.in_words}",
            change="Let the proxy pass bodies of errors through: hosts show their users what they say.",
        )
    return "Bodies come as the server wrote them"
