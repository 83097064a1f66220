"""What the provider and its authorization server say of themselves.

Public servers differ in what they tell; only what the next step needs is required.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cli import errors
from cli.credential_cache import Entry
from cli.errors import Failure, from_answer
from cli.http_client import Json, Provider

RESOURCE_PATH = "/.well-known/oauth-protected-resource"
SERVER_PATH = "/.well-known/oauth-authorization-server"
_START = ("agent_connect_endpoint", "pdpp_agent_connect_endpoint")


@dataclass(frozen=True, slots=True)
class Discovered:
    """Both documents, checked."""

    resource: str
    issuer: str
    protected: Json
    server: Json

    @property
    def agent_connect(self) -> str | None:
        """Where an agent's attempt starts, wherever it is named."""
        told = [self.server.get(name) for name in _START]
        for document in (self.server, self.protected):
            agents = document.get("pdpp_agent_discovery")
            told.append(agents.get(_START[0]) if isinstance(agents, dict) else None)
        return next((each for each in told if isinstance(each, str)), None)

    def endpoint(self, name: str) -> str | None:
        """An endpoint of the authorization server, if it has that one."""
        found = self.server.get(name)
        return found if isinstance(found, str) else None

    @property
    def registers(self) -> bool:
        """Whether a client can make itself known."""
        modes = self.server.get("pdpp_registration_modes_supported", ["dynamic"])
        return self.endpoint("registration_endpoint") is not None and "dynamic" in modes


def discover(provider: Provider) -> Discovered:
    """Read both documents; a `Failure` where they contradict what was asked for."""
    protected = provider.get(RESOURCE_PATH)
    resource = _resource(provider, protected)
    _agents_get_no_owner_token(protected)
    servers = protected.get("authorization_servers")
    issuer = str(servers[0]) if isinstance(servers, list) and servers else provider.url
    server = _server(provider, issuer)
    if str(server.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise _contradiction(
            f"The authorization server is announced as {issuer}, but calls itself "
            f"{server.get('issuer')}."
        )
    return Discovered(resource, issuer, protected, server)


def _resource(provider: Provider, protected: Json) -> str:
    resource = str(protected.get("resource", ""))
    if resource.rstrip("/") != provider.url:
        raise _contradiction(
            f"The server calls itself {resource or 'nothing'}, not {provider.url}.",
            next_step=f"pdpp connect {resource}" if resource else None,
        )
    return resource


def _server(provider: Provider, issuer: str) -> Json:
    """RFC 8414 puts the path of an issuer behind the well-known one; some put it before."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    places = [f"{issuer.rstrip('/')}{SERVER_PATH}"]
    if path:
        places.insert(0, f"{parts.scheme}://{parts.netloc}{SERVER_PATH}{path}")
    for place in places[:-1]:
        try:
            return provider.get(place)
        except Failure as failure:
            if failure.exit_code not in {errors.NOT_FOUND, errors.PROTOCOL}:
                raise
    return provider.get(places[-1])


def _agents_get_no_owner_token(protected: Json) -> None:
    agents = protected.get("pdpp_agent_discovery")
    cli: Any = agents.get("cli") if isinstance(agents, dict) else None
    if isinstance(cli, dict) and cli.get("no_owner_token") is False:
        raise Failure(
            "owner_credential",
            "This server would hand an owner's token to this command, which never takes one.",
            exit_code=errors.NO_PERMISSION,
        )


def _contradiction(message: str, *, next_step: str | None = None) -> Failure:
    return Failure(
        "discovery_mismatch",
        message,
        exit_code=errors.PROTOCOL,
        next_step=next_step or "The owner of the server has to correct its public URL.",
    )


CLIENT_NAME = "PDPP CLI"


def client(
    provider: Provider, found: Discovered, known: Entry | None, *, name: str
) -> dict[str, Any]:
    """`{client_id?, client_name, token_endpoint_auth_method}` as the cache keeps it."""
    about: dict[str, Any] = {"client_name": name, "token_endpoint_auth_method": "none"}
    if (cached := _cached(found, known, name)) is not None:
        return {**about, "client_id": cached}
    if found.registers:
        return {**about, "client_id": _registered(provider, found, about)}
    if (public := _public(found)) is not None:
        return {**about, "client_id": public}
    return about


def _cached(found: Discovered, known: Entry | None, name: str) -> str | None:
    if known is None or known.get("authorization_server") != found.issuer:
        return None
    kept = known.get("client")
    if not isinstance(kept, dict) or kept.get("client_name") != name:
        return None
    client_id = kept.get("client_id")
    return client_id if isinstance(client_id, str) else None


def _registered(provider: Provider, found: Discovered, about: dict[str, Any]) -> str:
    status, body = provider.post(str(found.endpoint("registration_endpoint")), sent=about)
    client_id = body.get("client_id")
    if status not in {200, 201} or not isinstance(client_id, str):
        raise from_answer(status, body)
    return client_id


def _public(found: Discovered) -> str | None:
    for each in found.server.get("pdpp_pre_registered_public_clients") or ():
        if isinstance(each, dict) and isinstance(each.get("client_id"), str):
            return str(each["client_id"])
    return None
