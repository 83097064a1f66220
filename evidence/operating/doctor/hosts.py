"""How the hosts differ: how they register, where they come back to, from where they call."""

from dataclasses import dataclass
from typing import Any


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
