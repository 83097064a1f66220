"""Which client this is: the one registered before, else a new one, else one everybody may use."""

from typing import Any

from evidence.cli.cache import Entry
from evidence.cli.connecting.discovery import Discovered
from evidence.cli.failures import from_answer
from evidence.cli.provider import Provider

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
