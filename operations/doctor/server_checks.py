"""Check bodies, background jobs and, with a token, the MCP tools."""

import json
from typing import Any

from operations.doctor.findings import Side, StepFailedError, StepSkippedError, failure, warning
from operations.doctor.http_probe import body_limit
from operations.doctor.probe import (
    INITIALIZE,
    PROTOCOL_VERSION,
    ProbeState,
    require_server_response,
)

EXPECTED_TOOLS = {"schema", "query_records", "aggregate", "search", "fetch", "read_record_field"}
COMMON_WORDS = "the OR and OR for OR with OR und OR die OR de OR la OR 的 OR の"
"""A query that matches almost any collection of records."""
BODY_CHARS = 200_000
"""Larger than any tool call, and below the server's limit of one megabyte."""


def check_large_body(state: ProbeState) -> str:
    """Check that no proxy rejects a body of ordinary size."""
    params = {**INITIALIZE["params"], "padding": "x" * BODY_CHARS}
    response = state.http.post(state.url, {**INITIALIZE, "params": params})
    if response.status == 413:
        raise body_limit(response)
    require_server_response(response)
    return f"A body of {BODY_CHARS // 1000} kB arrives"


def check_response_body(state: ProbeState) -> str:
    """Check that no proxy compresses or replaces bodies."""
    response = require_server_response(state.initialize())
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise warning(
            "compressed",
            Side.PROXY,
            seen=f"Responses are compressed ({encoding}) without being requested",
            change="Compress only on request, and nothing under /mcp and /v1.",
        )
    if response.status == 401 and response.json is None:
        raise warning(
            "body_replaced",
            Side.PROXY,
            seen=f"The body of the 401 is not the server's: {response.summary}",
            change="Let the proxy forward the bodies of errors: hosts show them to their users.",
        )
    return "Bodies arrive unchanged"


def check_background_jobs(state: ProbeState) -> str:
    """Check that background jobs run, as /readyz reports it. Proxies may hide /readyz."""
    try:
        readiness = state.http.get(f"{state.origin}/readyz").json or {}
    except StepFailedError:
        readiness = {}
    if readiness.get("status") != "ready":
        raise StepSkippedError(
            "/readyz does not answer from here; run the doctor on the server's own machine."
        )
    if "warning" in readiness:
        raise warning(
            "work_waits",
            Side.SERVER,
            seen=str(readiness["warning"]),
            change="Keep one server running without PDPP_BACKGROUND=false (manage.py run). If one "
            "runs, its log shows what fails.",
        )
    return "Background jobs are running"


def check_tools(state: ProbeState) -> str:
    """Check that tools/list contains all tools."""
    tools = {str(tool.get("name")) for tool in _call(state, "tools/list", {}).get("tools", ())}
    if missing := sorted(EXPECTED_TOOLS - tools):
        raise failure(
            "tools_missing",
            Side.SERVER,
            seen=f"tools/list lacks {', '.join(missing)}",
            change="Check that this is the MCP endpoint of this server, not of another one.",
        )
    return f"{len(tools)} tools"


def check_search(state: ProbeState) -> str:
    """Search all records that the grant covers."""
    results = _call_tool(state, "search", q=COMMON_WORDS, limit=1).get("results") or ()
    state.found_id = str(results[0].get("id", "")) if results else ""
    return "The search returned a result" if state.found_id else "The search returned no results"


def check_fetch(state: ProbeState) -> str:
    """Fetch the first search result as a document."""
    if not state.found_id:
        return "There is no search result to fetch"
    document = _call_tool(state, "fetch", id=state.found_id)
    if set(document) != {"id", "title", "text", "url", "metadata"}:
        raise failure(
            "fetch_altered",
            Side.SERVER,
            seen="The document does not have the five members that hosts expect",
            change="Update the server.",
        )
    return "The document is complete"


def _call_tool(state: ProbeState, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the JSON in the text of a tool result. Errors never show its content."""
    result = _call(state, "tools/call", {"name": name, "arguments": arguments})
    text = next((part.get("text", "") for part in result.get("content", ())), "")
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    if result.get("isError") or not isinstance(body, dict):
        error = body.get("error", {}) if isinstance(body, dict) else {}
        raise failure(
            "tool_failed",
            Side.SERVER,
            seen=f"{name} failed: {error.get('code')}: {error.get('message')}",
            change=str(error.get("next_step") or "Check the log of the server."),
        )
    return body


def _call(state: ProbeState, method: str, params: dict[str, Any]) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
    headers = {
        "authorization": f"Bearer {state.bearer}",
        "mcp-protocol-version": PROTOCOL_VERSION,
    }
    response = require_server_response(state.http.post(state.url, message, **headers))
    if response.status in {401, 403}:
        raise failure(
            "token_refused",
            Side.CLIENT,
            seen=f"The token is rejected: {response.summary}",
            change="It has expired, was revoked, or is for another resource; connect the host again.",
        )
    result = (response.json or {}).get("result")
    if response.status != 200 or not isinstance(result, dict):
        raise failure(
            "call_failed",
            Side.SERVER,
            seen=f"{method} returned {response.summary}",
            change="Check the log of the server. A proxy may also drop the header "
            "MCP-Protocol-Version.",
        )
    return result
