"""Build HTTP requests as text, for a client that only sends them."""

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

NEWEST_REVISION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": NEWEST_REVISION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def get(path: str, query: Mapping[str, object], *, bearer: str) -> str:
    """Return a GET request."""
    return _head("GET", _target(path, query), {"Authorization": f"Bearer {bearer}"})


def call(tool: str, arguments: Mapping[str, object], *, bearer: str) -> str:
    """Return a `tools/call` request of the newest MCP revision."""
    return _mcp("tools/call", {"name": tool, "arguments": arguments}, tool, bearer)


def tools_list(*, bearer: str) -> str:
    return _mcp("tools/list", {}, None, bearer)


def record(stream: str, key: str) -> str:
    """Return the path of a record."""
    return f"/v1/streams/{quote(stream, safe='')}/records/{quote(key, safe='')}"


def send(port: int, request: str) -> Any:
    """Send a request and return the JSON response. Raises ValueError for any status but 200."""
    head, _, body = request.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ")
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        headers = dict(line.split(": ", 1) for line in lines)
        connection.request(method, target, body.encode() or None, headers)
        response = connection.getresponse()
        content = response.read()
    if response.status != 200:
        raise ValueError(f"{first} returned {response.status}: {content[:300]!r}")
    return json.loads(content)


def _target(path: str, query: Mapping[str, object]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _mcp(method: str, params: Mapping[str, object], name: str | None, bearer: str) -> str:
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": _META}}
    )
    headers = {
        "Authorization": f"Bearer {bearer}",
        "Accept": "application/json",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "MCP-Protocol-Version": NEWEST_REVISION,
        "Mcp-Method": method,
    }
    if name is not None:
        headers["Mcp-Name"] = name
    return _head("POST", "/mcp", headers) + body


def _head(method: str, target: str, headers: Mapping[str, str]) -> str:
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines) + "\r\n\r\n"
