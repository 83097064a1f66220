"""Call the endpoint over plain HTTP, without the official client."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from mcp_adapter.rest import Rest, TokenRejected
from mcp_adapter.server import Offload, ServerInfo
from mcp_adapter.streamable_http import McpEndpoint, TransportSettings, build_endpoint
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import AUTHORITY, PUBLIC_URL, run_inline

TOKEN = "pdpp_at_good"
METADATA = f"{PUBLIC_URL}/.well-known/oauth-protected-resource/mcp"
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)


def authenticate(bearer: str | None) -> object:
    """Accept one token, and reject others with the errors of the site."""
    if bearer == TOKEN:
        return AUTHORITY
    if bearer == "pdpp_own_owner":
        raise TokenRejected(403, {"type": "permission_error", "code": "permission_error",
                            "message": "Owner tokens are not accepted here."})  # fmt: skip
    if bearer in {"revoked", "expired", "consumed"}:
        raise TokenRejected(
            403, {"type": "permission_error", "code": f"grant_{bearer}", "message": "Over."}
        )
    if bearer == "paused":
        raise TokenRejected(403, {"type": "permission_error", "code": "grant_paused",
                            "message": "This access is paused."})  # fmt: skip
    if bearer == "broken":
        raise ZeroDivisionError("pdpp_at_secret")
    raise TokenRejected(401, {"type": "authentication_error", "code": "authentication_error",
                        "message": "Bearer token required."})  # fmt: skip


def endpoint(rest: Rest | None = None, *, offload: Offload = run_inline) -> McpEndpoint:
    return build_endpoint(
        rest or FakeRest(records=[("cin_work", "messages", "m1", {"body": "日本語 lease"})]),
        authenticate,
        settings=TransportSettings(
            server_info=ServerInfo(public_url=PUBLIC_URL, version="1"),
            resource_metadata_url=lambda _host: METADATA,
            allowed_origins=("https://inspector.example",),
            browser_origins=frozenset({"https://app.example"}),
            max_body_bytes=20_000,
            offload=offload,
        ),
    )


def send(
    body: object = None,
    *,
    method: str = "POST",
    path: str = "/mcp",
    token: str | None = TOKEN,
    rest: Rest | None = None,
    offload: Offload = run_inline,
    **headers: str | None,
) -> Reply:
    """Send one request. A header of None is omitted; `_` in a name becomes `-`."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent: dict[str, str | None] = {
        "host": "records.example",
        "content-type": "application/json",
        "accept": "application/json",
        "authorization": None if token is None else f"Bearer {token}",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    raw = [(name.encode(), value.encode()) for name, value in sent.items() if value is not None]
    return anyio.run(_exchange, endpoint(rest, offload=offload), method, path, raw, content)


async def _exchange(
    served: McpEndpoint, method: str, path: str, headers: list[tuple[bytes, bytes]], content: bytes
) -> Reply:
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "server": ("records.example", 443),
        "client": ("127.0.0.1", 5),
        "scheme": "https",
    }
    sent: list[Any] = []
    pending = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Any:
        if not pending:
            await anyio.sleep_forever()
        return pending.pop()

    async def collect(message: Any) -> None:
        sent.append(message)

    async with served.lifespan():
        with anyio.fail_after(60):
            await served.app(scope, receive, collect)
    start = sent[0]
    return Reply(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )


def modern(method: str, params: dict[str, Any] | None = None, **options: Any) -> Reply:
    """Send a request of protocol 2026-07-28 with the headers that it requires."""
    params = params or {}
    name = params.get("name", params.get("uri"))
    headers = {
        "mcp_protocol_version": MODERN,
        "mcp_method": method,
        **({"mcp_name": name} if name else {}),
    }
    return send(rpc(method, {**params, "_meta": META}), **{**headers, **options})


def rpc(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, **({"params": params} if params else {})}


def initialize(version: str) -> dict[str, Any]:
    """Return the initialize request of older protocol versions."""
    about = {"name": "host", "version": "1"}
    return rpc("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": about})
