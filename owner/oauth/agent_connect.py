"""`/agent-connect`: let `pdpp connect` request access and poll for its token (contract 1.8).

The owner decides on the page of the device flow. The token is derived from the polling code at each
poll, so repeated polls return the same token and none has to be stored.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from evidence import limits
from evidence.access import grant_states
from evidence.api.authentication import requested_url
from evidence.errors import RateLimitExceeded
from evidence.models.owners import act_for
from owner.oauth import authorization_request, clients, requests, tokens
from owner.oauth.device_flow import device_response
from owner.oauth.responses import (
    client_error_response,
    error_response,
    json_response,
    rate_limited_response,
)
from owner.oauth.server import DEVICE_GRANT
from owner.oauth.uris import SCOPE, single_resource

if TYPE_CHECKING:
    from owner.oauth.models import PendingRequest, Registration

TOKEN_LIFETIME = timedelta(days=365)
DEVICE_METADATA = {"token_endpoint_auth_method": "none"}
INTERVAL_MS = {"interval_ms": limits.POLL_SECONDS * 1000}
"""Reference clients take `interval` for milliseconds too, and prefer this member."""


@csrf_exempt
@require_POST
def agent_connect(request: HttpRequest) -> HttpResponse:
    """Return 201 with the approval URL for the owner and the polling URL for the client."""
    now = timezone.now()
    parameters = _parameters(request)
    resource = single_resource([parameters.get("resource", "")], default="/v1")
    if resource is None:
        return error_response("invalid_target", "resource must name a resource of this server.")
    try:
        pushed = _pushed_request(parameters, now)
        registration = _registration(request, parameters, pushed, now)
        opened = requests.open_request(
            requests.Kind.CONNECT,
            pushed.parameters if pushed is not None else "",
            registration=registration,
            resource=resource,
            now=now,
            typed=True,
        )
    except _ConnectError as error:
        return error_response(error.error, str(error), status=error.status)
    except clients.InvalidClientError as error:
        return client_error_response(error)
    except clients.InvalidClientMetadataError as error:
        return error_response("invalid_request", str(error))
    except RateLimitExceeded as error:
        return rate_limited_response(error)
    return json_response(_attempt_body(opened, registration, requested_url(request)), status=201)


@csrf_exempt
@require_POST
def poll_token(request: HttpRequest, attempt_id: str) -> HttpResponse:
    """Return 202 until the owner decides, then the token at every poll."""
    now = timezone.now()
    code = _parameters(request).get("polling_code", "")
    with transaction.atomic():
        row = requests.lock_by_handle(requests.Kind.CONNECT, code)
        if row is None or row.request_id != attempt_id:
            return error_response("invalid_grant", "Unknown polling code.", status=401)
        if now >= row.expires_at + timedelta(seconds=limits.QUESTION_SECONDS) or (
            row.decided_at is None and now >= row.expires_at
        ):
            return error_response("expired_token", "The attempt has expired. Start another.")
        if row.decided_at is None:
            pending = {"error": "authorization_pending", "status": "pending"}
            body = {**pending, "interval": limits.POLL_SECONDS, **INTERVAL_MS}
            return json_response(body, status=202)
        if row.package_id is None or row.owner_id is None:
            return error_response("access_denied", "The owner denied the request.", status=403)
        act_for(row.owner_id)
        return json_response(_token_body(row, code, now))


class _ConnectError(Exception):
    def __init__(self, error: str, description: str, *, status: int = 400) -> None:
        super().__init__(description)
        self.error, self.status = error, status


def _registration(
    request: HttpRequest,
    parameters: dict[str, str],
    pushed: "PendingRequest | None",
    now: datetime,
) -> "Registration":
    client_id = parameters.get("client_id") or (pushed and pushed.registration_id)
    if client_id or "Authorization" in request.headers:
        known = clients.authenticate_client(request, {**parameters, "client_id": client_id or ""})
        if pushed is not None and pushed.registration_id != known.pk:
            raise _ConnectError("invalid_client", "Another client pushed the request.", status=403)
        if DEVICE_GRANT not in known.grant_types:
            raise _ConnectError(
                "unauthorized_client", "The client is not registered for the device grant."
            )
        return known
    metadata = clients.validate_client_metadata(
        {**DEVICE_METADATA, "client_name": parameters.get("client_name", "")}
    )
    row, _ = requests.register_dynamic_client(
        metadata, address=request.META.get("REMOTE_ADDR", ""), now=now
    )
    return row


def _pushed_request(parameters: dict[str, str], now: datetime) -> "PendingRequest | None":
    uri = parameters.get("request_uri", "")
    handle = uri.removeprefix(authorization_request.REQUEST_URI_PREFIX)
    if not handle:
        return None
    row = requests.find_by_handle(requests.Kind.PUSHED, handle)
    if row is None or row.expires_at <= now:
        raise _ConnectError("expired_token", "The request is unknown or has expired.")
    return row


def _attempt_body(
    opened: requests.OpenedRequest, registration: "Registration", server_url: str
) -> dict[str, Any]:
    device = device_response(opened, server_url)
    poll_url = f"{server_url}/agent-connect/{opened.row.request_id}/token"
    return {
        "object": "agent_connect_attempt",
        "id": opened.row.request_id,
        "status": "pending",
        "client_id": registration.client_id,
        "approval_url": device["verification_uri_complete"],
        "poll_url": poll_url,
        "token_url": poll_url,
        "polling_code": opened.handle,
        **INTERVAL_MS,
        **device,
    }


def _token_body(row: "PendingRequest", code: str, now: datetime) -> dict[str, Any]:
    package = row.package
    if package is None or row.decided_at is None:
        raise TypeError("the request was not approved")
    bearer = tokens.derive_bearer(code)
    expires_at = row.decided_at + TOKEN_LIFETIME
    tokens.store_token_once(bearer, package, resource=row.resource, now=now, expires_at=expires_at)
    grants = [
        grant_states.authorization_detail(grant)
        for grant in grant_states.active_grants(package.pk, now=now)
    ]
    return {
        "access_token": bearer,
        "token_type": "Bearer",
        "expires_in": int((expires_at - now).total_seconds()),
        "scope": SCOPE,
        "status": "approved",
        **grant_states.grant_reference(package.pk, now=now),
        **({"grant": grants[0]} if len(grants) == 1 else {"grants": grants}),
    }


def _parameters(request: HttpRequest) -> dict[str, str]:
    """Return the string members of a JSON object or of a form."""
    if request.content_type != "application/json":
        return request.POST.dict()
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return {}
    members = body.items() if isinstance(body, dict) else ()
    return {name: value for name, value in members if isinstance(value, str)}
