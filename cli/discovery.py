"""Discover the authorization server (RFC 9728, RFC 8414) and register this client (RFC 7591).

Public servers differ in their metadata: only the members that the next step needs are required.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cli import errors
from cli.credential_cache import CacheEntry
from cli.errors import CliError, error_from_response
from cli.http_client import ApiClient, Json

RESOURCE_PATH = "/.well-known/oauth-protected-resource"
SERVER_PATH = "/.well-known/oauth-authorization-server"
CLIENT_NAME = "PDPP CLI"
_AGENT_CONNECT_MEMBERS = ("agent_connect_endpoint", "pdpp_agent_connect_endpoint")


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """Validated metadata of the protected resource and of its authorization server."""

    resource: str
    issuer: str
    resource_document: Json
    server_document: Json

    @property
    def agent_connect(self) -> str | None:
        """The agent-connect endpoint, from any of the places where servers publish it."""
        candidates = [self.server_document.get(name) for name in _AGENT_CONNECT_MEMBERS]
        for document in (self.server_document, self.resource_document):
            agents = document.get("pdpp_agent_discovery")
            if isinstance(agents, dict):
                candidates.append(agents.get(_AGENT_CONNECT_MEMBERS[0]))
        return next((url for url in candidates if isinstance(url, str)), None)

    def endpoint(self, name: str) -> str | None:
        """Return an endpoint of the authorization server, or None."""
        url = self.server_document.get(name)
        return url if isinstance(url, str) else None

    @property
    def allows_registration(self) -> bool:
        """Whether clients can register dynamically."""
        modes = self.server_document.get("pdpp_registration_modes_supported", ["dynamic"])
        return self.endpoint("registration_endpoint") is not None and "dynamic" in modes


def discover(api: ApiClient) -> ServerMetadata:
    """Read the metadata of a server. Raises CliError if it contradicts the requested URL."""
    resource_document = api.get(RESOURCE_PATH)
    resource = str(resource_document.get("resource", ""))
    if resource.rstrip("/") != api.url:
        raise _mismatch_error(
            f"The server's metadata names the resource {resource or '(none)'}, not {api.url}.",
            next_step=f"pdpp connect {resource}" if resource else None,
        )
    _reject_owner_token_offer(resource_document)
    servers = resource_document.get("authorization_servers")
    issuer = str(servers[0]) if isinstance(servers, list) and servers else api.url
    server_document = _read_server_document(api, issuer)
    if str(server_document.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise _mismatch_error(
            f"The authorization server {issuer} names another issuer: "
            f"{server_document.get('issuer')}."
        )
    return ServerMetadata(resource, issuer, resource_document, server_document)


def _read_server_document(api: ApiClient, issuer: str) -> Json:
    """Read RFC 8414 metadata. Some servers put the issuer's path before the well-known path."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    if path:
        try:
            return api.get(f"{parts.scheme}://{parts.netloc}{SERVER_PATH}{path}")
        except CliError as error:
            if error.exit_code not in {errors.NOT_FOUND, errors.PROTOCOL}:
                raise
    return api.get(f"{issuer.rstrip('/')}{SERVER_PATH}")


def _reject_owner_token_offer(resource_document: Json) -> None:
    agents = resource_document.get("pdpp_agent_discovery")
    cli: Any = agents.get("cli") if isinstance(agents, dict) else None
    if isinstance(cli, dict) and cli.get("no_owner_token") is False:
        raise CliError(
            "owner_credential",
            "This server would issue an owner token. This command accepts only grants' tokens.",
            exit_code=errors.NO_PERMISSION,
        )


def _mismatch_error(message: str, *, next_step: str | None = None) -> CliError:
    return CliError(
        "discovery_mismatch",
        message,
        exit_code=errors.PROTOCOL,
        next_step=next_step or "The owner of the server must correct its public URL.",
    )


def client_registration(
    api: ApiClient, metadata: ServerMetadata, entry: CacheEntry | None, *, name: str
) -> dict[str, Any]:
    """Return `{client_id?, client_name, token_endpoint_auth_method}`, registering if needed."""
    client: dict[str, Any] = {"client_name": name, "token_endpoint_auth_method": "none"}
    client_id = _cached_client_id(metadata, entry, name)
    if client_id is None and metadata.allows_registration:
        client_id = _register(api, metadata, client)
    elif client_id is None:
        client_id = _public_client_id(metadata)
    return client if client_id is None else {**client, "client_id": client_id}


def _cached_client_id(metadata: ServerMetadata, entry: CacheEntry | None, name: str) -> str | None:
    if entry is None or entry.get("authorization_server") != metadata.issuer:
        return None
    client = entry.get("client")
    if not isinstance(client, dict) or client.get("client_name") != name:
        return None
    client_id = client.get("client_id")
    return client_id if isinstance(client_id, str) else None


def _register(api: ApiClient, metadata: ServerMetadata, client: dict[str, Any]) -> str:
    status, body = api.post(str(metadata.endpoint("registration_endpoint")), json_body=client)
    client_id = body.get("client_id")
    if status not in {200, 201} or not isinstance(client_id, str):
        raise error_from_response(status, body)
    return client_id


def _public_client_id(metadata: ServerMetadata) -> str | None:
    for client in metadata.server_document.get("pdpp_pre_registered_public_clients") or ():
        if isinstance(client, dict) and isinstance(client.get("client_id"), str):
            return str(client["client_id"])
    return None
