"""Find the authorization server (RFC 9728, RFC 8414), register this client (RFC 7591), and ask for access.

Access is asked for by agent-connect or the device flow (RFC 8628). Public servers differ in their
metadata: only the members that the next step needs are required.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from cli import errors
from cli.credentials import CacheEntry, credential_from_response
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
    def signs_in_collectors(self) -> bool:
        """Whether the device flow gives tokens of collectors. Others may ignore the scope."""
        profiles = self.server_document.get("pdpp_device_authorization_profiles_supported") or ()
        return any(
            isinstance(profile, dict) and profile.get("scope") == COLLECT_SCOPE
            for profile in profiles
        )

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
            next_step=f"Use the address {resource}." if resource else None,
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


SCOPE = "pdpp:read"
COLLECT_SCOPE = "pdpp:collect"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
WITHOUT_SIGN_IN = "Ask its owner for a token and set PDPP_ACCESS_TOKEN."
DEFAULT_INTERVAL = 2.0
DEFAULT_EXPIRES_IN = 300.0
SLOW_DOWN_SECONDS = 5.0
_APPROVAL_MEMBERS = ("approval_url", "verification_uri_complete", "verification_uri")
_POLL_MEMBERS = ("poll_url", "token_url", "device_poll_endpoint", "completion_endpoint")
_PENDING = frozenset({"pending", "authorization_pending"})
_OUTCOMES: Mapping[str, tuple[str, int]] = {
    "access_denied": ("The owner denied the request.", errors.NO_PERMISSION),
    "expired_token": ("The request expired before the owner approved it.", errors.TRY_LATER),
    "insufficient_scope": ("The grant is too narrow for this command.", errors.NO_PERMISSION),
    "invalid_grant": ("The server no longer knows this request.", errors.NOT_CONNECTED),
}


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A pending request for access. `interval` and `expires_in` are seconds."""

    approval_url: str
    user_code: str | None
    interval: float
    expires_in: float
    poll: Callable[[], tuple[int, Json]]


def start(
    api: ApiClient, metadata: ServerMetadata, client: Mapping[str, Any], *, device: bool
) -> AuthorizationRequest:
    """Start a request for access. `device` prefers RFC 8628 where the server offers both."""
    device_endpoint = metadata.endpoint("device_authorization_endpoint")
    if metadata.agent_connect is not None and not (device and device_endpoint):
        return _start_agent_connect(api, metadata, client)
    if device_endpoint is not None and metadata.endpoint("token_endpoint") is not None:
        return _start_device_flow(api, metadata, client, scope=SCOPE)
    raise CliError(
        "no_way_in",
        "The server supports neither agent-connect nor the device flow.",
        exit_code=errors.PROTOCOL,
        next_step=WITHOUT_SIGN_IN,
    )


def start_collector(
    api: ApiClient, metadata: ServerMetadata, client: Mapping[str, Any]
) -> AuthorizationRequest:
    """Start a request for the token of a collector. Raises CliError where a server offers none."""
    if not metadata.signs_in_collectors:
        raise CliError(
            "no_way_in",
            "The server offers no sign-in for collectors.",
            exit_code=errors.PROTOCOL,
            next_step="Ask its owner for a token and set PDPP_COLLECTOR_TOKEN.",
        )
    return _start_device_flow(api, metadata, client, scope=COLLECT_SCOPE)


def wait_for_decision(request: AuthorizationRequest) -> dict[str, Any]:
    """Poll until the owner approves and return the credential. Raises CliError otherwise."""
    deadline, interval = time.monotonic() + request.expires_in, request.interval
    while True:
        status, body = request.poll()
        token = body.get("credential") if isinstance(body.get("credential"), dict) else body
        if token is not None and token.get("access_token"):
            return credential_from_response(token)
        if body.get("error") == "slow_down":
            interval += SLOW_DOWN_SECONDS
        elif not _is_pending(status, body):
            raise _outcome_error(status, body)
        if time.monotonic() + interval > deadline:
            raise CliError(
                "expired_token",
                "The owner did not approve the request in time.",
                exit_code=errors.TRY_LATER,
                next_step="Run it again and open the address that it prints.",
            )
        time.sleep(interval)


def _start_agent_connect(
    api: ApiClient, metadata: ServerMetadata, client: Mapping[str, Any]
) -> AuthorizationRequest:
    request = {"resource": metadata.resource, "scope": SCOPE, "client_name": client["client_name"]}
    if "client_id" in client:
        request["client_id"] = client["client_id"]
    status, body = api.post(str(metadata.agent_connect), json_body=request)
    if not 200 <= status < 300:
        raise _refusal(status, body)
    poll_url = _first_member(body, _POLL_MEMBERS)
    poll_body = {"polling_code": body["polling_code"]} if "polling_code" in body else {}
    return _pending_request(body, lambda: api.post(poll_url, json_body=poll_body))


def _start_device_flow(
    api: ApiClient, metadata: ServerMetadata, client: Mapping[str, Any], *, scope: str
) -> AuthorizationRequest:
    form = {"client_id": str(client.get("client_id", "")), "resource": metadata.resource}
    endpoint = str(metadata.endpoint("device_authorization_endpoint"))
    status, body = api.post(endpoint, form={**form, "scope": scope})
    if status != 200:
        raise _refusal(status, body)
    form |= {"grant_type": DEVICE_CODE, "device_code": str(body.get("device_code", ""))}
    token_endpoint = str(metadata.endpoint("token_endpoint"))
    return _pending_request(body, lambda: api.post(token_endpoint, form=form))


def _refusal(status: int, body: Json) -> CliError:
    """Return the error of a server that starts no request, such as one that requires sources in it."""
    error = error_from_response(status, body)
    error.next_step = error.next_step or WITHOUT_SIGN_IN
    return error


def _pending_request(body: Json, poll: Callable[[], tuple[int, Json]]) -> AuthorizationRequest:
    code = body.get("user_code")
    return AuthorizationRequest(
        approval_url=_first_member(body, _APPROVAL_MEMBERS),
        user_code=code if isinstance(code, str) else None,
        interval=_interval(body),
        expires_in=_positive_number(body.get("expires_in")) or DEFAULT_EXPIRES_IN,
        poll=poll,
    )


def _interval(body: Json) -> float:
    """Return the polling interval in seconds. Some servers send milliseconds under either name."""
    if (milliseconds := _positive_number(body.get("interval_ms"))) is not None:
        return milliseconds / 1000
    interval = _positive_number(body.get("interval"))
    if interval is None:
        return DEFAULT_INTERVAL
    return interval / 1000 if interval >= 100 else interval


def _positive_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return float(value)


def _first_member(body: Json, names: tuple[str, ...]) -> str:
    for name in names:
        if isinstance(body.get(name), str):
            return str(body[name])
    raise CliError(
        "connect_request_failed",
        f"The server started the request but sent none of {', '.join(names)}.",
        exit_code=errors.PROTOCOL,
    )


def _is_pending(status: int, body: Json) -> bool:
    if 200 <= status < 300:
        return body.get("status") in _PENDING
    return body.get("error") == "authorization_pending"


def _outcome_error(status: int, body: Json) -> CliError:
    error = error_from_response(status, body)
    message, exit_code = _OUTCOMES.get(error.code, (error.message, errors.PROTOCOL))
    is_known = error.code in _OUTCOMES
    return CliError(
        error.code if is_known else "connect_request_failed",
        message,
        exit_code=errors.UNAVAILABLE if status >= 500 else exit_code,
        next_step="Run it again." if is_known else None,
        detail=error.detail,
    )
