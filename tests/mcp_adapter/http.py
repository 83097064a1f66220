"""The endpoint over bare HTTP, as hosts that are not the official client speak it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from mcp_adapter.rest import Refused, Rest
from mcp_adapter.server import Identity, Offload
from mcp_adapter.streamable_http import McpEndpoint, TransportSettings, build
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import AUTHORITY, PUBLIC_URL, inline

TOKEN = "pdpp_at_good"
METADATA = f"{PUBLIC_URL}/.well-known/oauth-protected-resource/mcp"
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)


def authenticate(bearer: str | None) -> object:
    """One good token; the others are refused as the site refuses them."""
    if bearer == TOKEN:
        return AUTHORITY
    if bearer == "pdpp_own_owner":
        raise Refused(403, {"type": "permission_error", "code": "permission_error",
                            "message": "Owner tokens are not accepted here."})  # fmt: skip
    if bearer in {"revoked", "expired", "consumed"}:
        raise Refused(
            403, {"type": "permission_error", "code": f"grant_{bearer}", "message": "Over."}
        )
    if bearer == "broken":
        raise ZeroDivisionError("pdpp_at_secret")
    raise Refused(401, {"type": "authentication_error", "code": "authentication_error",
                        "message": "Bearer token required."})  # fmt: skip


def endpoint(rest: Rest | None = None, *, offload: Offload = inline) -> McpEndpoint:
    return build(
        rest or FakeRest(records=[("cin_work", "messages", "m1", {"body": "日本語 lease"})]),
        authenticate,
        settings=TransportSettings(
            identity=Identity(public_url=PUBLIC_URL, version="1"),
            resource_metadata_url=METADATA,
            allowed_hosts=("records.example", ".trusted.example", "[::1]"),
            allowed_origins=("https://inspector.example",),
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
    offload: Offload = inline,
    **headers: str | None,
) -> Reply:
    """One request; a header given as None is left out, `_` in a name is `-`."""
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
        with anyio.fail_after(10):
            await served.app(scope, receive, collect)
    start = sent[0]
    return Reply(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )


def modern(method: str, params: dict[str, Any] | None = None, **more: Any) -> Reply:
    """A request of 2026-07-28 with the headers it requires."""
    params = params or {}
    name = params.get("name", params.get("uri"))
    headers = {
        "mcp_protocol_version": MODERN,
        "mcp_method": method,
        **({"mcp_name": name} if name else {}),
    }
    return send(rpc(method, {**params, "_meta": META}), **{**headers, **more})


def rpc(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, **({"params": params} if params else {})}


def initialize(version: str) -> dict[str, Any]:
    """The handshake of the older revisions."""
    about = {"name": "host", "version": "1"}
    return rpc("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": about})
