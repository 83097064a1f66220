"""A fake of the public reference server: its OAuth endpoints (contract 1.8) and `/v1/schema`.

Like the reference, it sends intervals in seconds, 202 while the request is pending, and no refresh
token. `decisions` are the status and body of each poll; the last one repeats.
"""

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import httpx2

RS, AS = "https://rs.example", "https://as.example"
APPROVED = (200, {"access_token": "at_x", "token_type": "Bearer", "grant_id": "grt_3", "grant": {}})
WAITING = (202, {"error": "authorization_pending", "status": "pending", "interval": 2})


@dataclass
class ReferenceServer:
    """`protected` and `server` override metadata members; None removes one.

    With `several_sources`, requests must name the sources that they are for.
    """

    several_sources: bool = False
    protected: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    decisions: list[tuple[int, dict[str, Any]]] = field(
        default_factory=lambda: [WAITING, WAITING, APPROVED]
    )
    schema: tuple[int, dict[str, Any]] = (200, {"bearer": {"token_kind": "client"}})
    sent: list[tuple[str, Any]] = field(default_factory=list)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        status, body = self._answer(request)
        if self.several_sources and body in (ATTEMPT, DEVICE):
            status, body = (
                400,
                {"error": {"code": "invalid_request", "message": "Name the sources."}},
            )
        return httpx2.Response(status, json=body, request=request)

    def _answer(self, request: httpx2.Request) -> tuple[int, Any]:
        origin = f"{request.url.scheme}://{request.url.host}"
        if request.method == "POST":
            self.sent.append((request.url.path, _parsed(request)))
        match origin, request.method, request.url.path:
            case "https://rs.example", "GET", "/.well-known/oauth-protected-resource":
                return 200, _present(PROTECTED | self.protected)
            case "https://as.example", "GET", "/.well-known/oauth-authorization-server":
                return 200, _present(SERVER | self.server)
            case "https://as.example", "POST", "/oauth/register":
                return 201, {"client_id": "cli_9", **self.sent[-1][1]}
            case "https://as.example", "POST", "/agent-connect":
                return 201, ATTEMPT
            case "https://as.example", "POST", "/oauth/device_authorization":
                return 200, DEVICE
            case "https://as.example", "POST", "/agent-connect/agc_1/token" | "/oauth/token":
                return self.decisions.pop(0) if len(self.decisions) > 1 else self.decisions[0]
            case "https://as.example", "POST", "/oauth/revoke":
                return 200, {}
            case "https://rs.example", "GET", "/v1/schema":
                return self.schema
        return 404, {"error": {"code": "not_found"}}


PROTECTED = {
    "resource": RS,
    "authorization_servers": [AS],
    "pdpp_agent_discovery": {"advisory": True, "cli": {"no_owner_token": True}},
}
SERVER = {
    "issuer": AS,
    "token_endpoint": f"{AS}/oauth/token",
    "registration_endpoint": f"{AS}/oauth/register",
    "device_authorization_endpoint": f"{AS}/oauth/device_authorization",
    "agent_connect_endpoint": f"{AS}/agent-connect",
    "pdpp_registration_modes_supported": ["dynamic", "pre_registered_public"],
}
ATTEMPT = {
    "object": "agent_connect_attempt",
    "id": "agc_1",
    "status": "pending",
    "approval_url": f"{AS}/consent?x=1",
    "poll_url": f"{AS}/agent-connect/agc_1/token",
    "token_url": f"{AS}/agent-connect/agc_1/token",
    "interval": 2,
    "expires_in": 300,
    "polling_code": "agc_poll_1",
}
DEVICE = {
    "device_code": "dev_1",
    "user_code": "ABCD-EFGH",
    "verification_uri": f"{AS}/device",
    "verification_uri_complete": f"{AS}/device?user_code=ABCD-EFGH",
    "expires_in": 300,
    "interval": 1,
}


def _present(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value is not None}


def _parsed(request: httpx2.Request) -> Any:
    if request.headers.get("content-type", "").startswith("application/json"):
        return json.loads(request.content)
    return {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
