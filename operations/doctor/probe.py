"""State of one diagnosis: the simulated MCP host and what the steps have found."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from operations.doctor.findings import Side, failure
from operations.doctor.http_probe import HttpProbe, ProbeResponse, identify_proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """An MCP host and how it registers.

    `metadata_documents` means that it identifies itself by the URL of a document where the server
    supports that. `cloud` means that its requests come from the internet.
    """

    name: str
    client_name: str
    redirect_uri: str
    metadata_documents: bool = True
    cloud: bool = False

    def registration(self) -> dict[str, Any]:
        """Return the registration request of the host (RFC 7591)."""
        native = self.redirect_uri.startswith("http:")
        return {
            "client_name": f"{self.client_name} (pdpp doctor)",
            "redirect_uris": [self.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native" if native else "web",
            "scope": "pdpp:read offline_access",
        }


DEFAULT_HOST = Host(
    name="any",
    client_name="MCP client",
    redirect_uri="http://127.0.0.1:33418/callback",
    metadata_documents=False,
)
CLAUDE = Host(
    name="claude",
    client_name="Claude",
    redirect_uri="https://claude.ai/api/mcp/auth_callback",
    cloud=True,
)
CHATGPT = Host(
    name="chatgpt",
    client_name="ChatGPT",
    redirect_uri="https://chatgpt.com/connector_platform_oauth_redirect",
    cloud=True,
)
CODEX = Host(name="codex", client_name="Codex", redirect_uri="http://127.0.0.1:33418/callback")
GEMINI = Host(
    name="gemini",
    client_name="Gemini CLI",
    redirect_uri="http://localhost:7777/oauth/callback",
    metadata_documents=False,
)
HOSTS = {host.name: host for host in (CLAUDE, CHATGPT, CODEX, GEMINI)}

PROTOCOL_VERSION = "2025-06-18"
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "pdpp doctor", "version": "1"},
    },
}


@dataclass(slots=True)
class ProbeState:
    """What the steps share. `url` is the MCP endpoint as hosts use it; steps set the defaults."""

    url: str
    host: Host
    http: HttpProbe
    bearer: str | None
    challenge: dict[str, str] = field(default_factory=dict)
    challenge_request_id: str = ""
    resource: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    client_id: str = ""
    found_id: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port of the endpoint."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def initialize(self, bearer: str | None = None) -> ProbeResponse:
        """Send the first MCP request of a host."""
        headers = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
        return self.http.post(self.url, INITIALIZE, **headers)


def require_server_response(response: ProbeResponse) -> ProbeResponse:
    """Return the response. Raises StepFailedError if the server cannot have sent it."""
    if (error := identify_proxy(response)) is not None:
        raise error
    return response


def read_document(response: ProbeResponse, *, what: str) -> dict[str, Any]:
    """Return the JSON object of a metadata response. `what` names it in errors."""
    if require_server_response(response).status == 404:
        raise failure(
            "missing_document",
            Side.PROXY,
            seen=f"{response.url}: {response.summary}",
            change=f"Forward {urlsplit(response.url).path} to the server, which serves {what} there.",
        )
    document = response.json
    if response.status != 200 or document is None:
        raise failure(
            "unreadable_document",
            Side.SERVER,
            seen=f"{what} cannot be read: {response.summary}",
            change="Check the log of the server for this request.",
        )
    return document
