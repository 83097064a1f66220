"""What the walk knows so far."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from operations.doctor.findings import Side, wrong
from operations.doctor.http_probe import Answer, Asking
from operations.doctor.proxies import stranger


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """`metadata_documents`: it identifies itself by the URL of a document where the server takes
    that, and registers only otherwise. `cloud`: its requests come from the internet."""

    name: str
    client_name: str
    redirect_uri: str
    metadata_documents: bool = True
    cloud: bool = False

    def registration(self) -> dict[str, Any]:
        """What it sends to register (RFC 7591)."""
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


ANY = Host(
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


HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "pdpp doctor", "version": "1"},
    },
}


@dataclass(slots=True)
class State:
    """`url` is the address of the MCP endpoint as hosts are given it; steps fill in the rest."""

    url: str
    host: Host
    asking: Asking
    bearer: str | None
    challenge: dict[str, str] = field(default_factory=dict)
    challenged_as: str = ""
    resource: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    client_id: str = ""
    found: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def hello(self, bearer: str | None = None) -> Answer:
        """The first request of a host."""
        headers = {} if bearer is None else {"authorization": f"Bearer {bearer}"}
        return self.asking.post(self.url, HELLO, **headers)


def own(answer: Answer) -> Answer:
    """The answer, if the server itself can have given it."""
    if (found := stranger(answer)) is not None:
        raise found
    return answer


def document(answer: Answer, *, what: str) -> dict[str, Any]:
    """The JSON object of a successful answer."""
    if own(answer).status == 404:
        raise wrong(
            "missing_document",
            Side.PROXY,
            seen=f"{answer.url}: {answer.in_words}",
            change=f"Forward {urlsplit(answer.url).path} to the server, where {what} is.",
        )
    found = answer.json
    if answer.status != 200 or found is None:
        raise wrong(
            "unreadable_document",
            Side.SERVER,
            seen=f"{what} cannot be read: {answer.in_words}",
            change="Look into the log of the server for this request.",
        )
    return found
