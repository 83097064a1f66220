"""Device authorization (RFC 8628), and `/agent-connect`, by which `pdpp connect` requests access.

The owner types every code on one page. A device asks to read, or for the token of a collector. The token of a connect attempt is derived from its polling code
at each poll, so repeated polls return the same token and none has to be stored (contract 1.8).
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from evidence import limits
from evidence.access import grant_states
from evidence.api.authentication import requested_url
from evidence.models.owners import act_for
from owner.connections_page import WritableConnectionsForm
from owner.grants.grantable_sources import AccessRequest
from owner.grants.wizard import Approved, Denied, handle_decision, show_review
from owner.oauth import clients, requests, tokens
from owner.oauth.authorization_endpoint import (
    REQUEST_URI_PREFIX,
    client_claims,
    parse_authorization_details,
    posted_parameters,
)
from owner.oauth.clients import authenticate_client, requesting_client
from owner.oauth.responses import (
    COLLECT_SCOPE,
    SCOPE,
    RefusalError,
    endpoint,
    json_response,
    message_page,
    required_resource,
    stored_resource,
)
from owner.oauth.server import DEVICE_GRANT
from owner.oauth.tokens import collector_name
from owner.permissions import owner_required

if TYPE_CHECKING:
    from owner.oauth.models import PendingRequest, Registration

USER_CODE = "user_code"


@endpoint
def device_authorization(request: HttpRequest) -> HttpResponse:
    """Return a user code to show and a device code to poll ``/oauth/token`` with."""
    details = request.POST.get("authorization_details", "")
    registration = authenticate_client(request, request.POST.dict())
    parse_authorization_details(details)
    require_device_grant(registration)
    kind = _requested_kind(request.POST.get("scope", ""))
    resource = required_resource(
        request.POST.getlist("resource"),
        default="/v1" if kind is requests.Kind.COLLECTOR else "/mcp",
    )
    if kind is requests.Kind.COLLECTOR and (details or resource != "/v1"):
        raise RefusalError("A collector names no details and no resource but the REST API.")
    opened = requests.open_request(
        kind,
        urlencode({"authorization_details": details}),
        registration=registration,
        resource=resource,
        now=timezone.now(),
        typed=True,
    )
    return json_response(
        {"device_code": opened.handle, **device_response(opened, requested_url(request))}
    )


def _requested_kind(scope: str) -> requests.Kind:
    """Return what a device asks for. Raises RefusalError for a token that reads and writes."""
    scopes = set(scope.split())
    if COLLECT_SCOPE not in scopes:
        return requests.Kind.DEVICE
    if len(scopes) > 1:
        raise RefusalError(
            f"{COLLECT_SCOPE} is asked for alone: a collector reads nothing.", error="invalid_scope"
        )
    return requests.Kind.COLLECTOR


def require_device_grant(registration: "Registration") -> None:
    """Raise RefusalError if the client is not registered for the device grant."""
    if DEVICE_GRANT not in registration.grant_types:
        raise RefusalError(
            "The client is not registered for the device grant.", error="unauthorized_client"
        )


def device_response(opened: requests.OpenedRequest, server_url: str) -> dict[str, object]:
    """Return the user code, where to enter it, and the polling times (RFC 8628, 3.2)."""
    url = f"{server_url}/device"
    return {
        USER_CODE: opened.user_code,
        "verification_uri": url,
        "verification_uri_complete": f"{url}?{urlencode({USER_CODE: opened.user_code})}",
        "expires_in": limits.QUESTION_SECONDS,
        "interval": limits.POLL_SECONDS,
    }


@owner_required
def device(request: HttpRequest) -> HttpResponse:
    """Let the owner enter a code, review the request and decide.

    A code in the URL is only filled in. The owner must compare and submit it, so that a link cannot
    trick them into approving someone else's device (RFC 8628, 5.4).
    """
    now = timezone.now()
    user_code = request.POST.get(USER_CODE, "")
    if not user_code:
        return _code_page(request, request.GET.get(USER_CODE, ""), is_unknown=False)
    row = requests.find_by_user_code(user_code, now=now)
    if row is None:
        return _code_page(request, user_code, is_unknown=True)
    if row.kind == requests.Kind.COLLECTOR:
        return _collector_page(request, row, user_code, now)
    access_request = _access_request(row)
    if set(request.POST) <= {USER_CODE, "csrfmiddlewaretoken"}:
        hidden = {USER_CODE: user_code}
        return show_review(request, access_request, action_url=request.path, hidden=hidden)
    with transaction.atomic():
        match handle_decision(request, access_request):
            case Approved(package_id):
                return _store_decision(request, row, package_id, now)
            case Denied():
                return _store_decision(request, row, None, now)
            case page:
                return page


def _collector_page(
    request: HttpRequest, row: "PendingRequest", user_code: str, now: datetime
) -> HttpResponse:
    """Let the owner choose the connections that a collector may write to; nothing is chosen before."""
    decision = request.POST.get("decision")
    form = WritableConnectionsForm(request.POST if decision == "allow" else None)
    if decision == "deny" or form.is_valid():
        chosen = form.cleaned_data["connections"] if form.is_bound else None
        if not requests.decide(row, connection_ids=chosen, now=now):
            return _too_late(request)
        if chosen is None:
            return message_page(request, DENIED, "The collector gets no token.", status=200)
        text = "You can return to the program. The page Collectors shows it, and ends its access."
        return message_page(request, ALLOWED, text, status=200)
    name = collector_name(row.registration)
    context = {"name": name, "form": form, "hidden": {USER_CODE: user_code}}
    status = 422 if form.is_bound else 200
    return render(request, "owner/oauth/collector.html", context, status=status)


DENIED, ALLOWED = "Access denied", "Access allowed"


def _too_late(request: HttpRequest) -> HttpResponse:
    text = "The request was already decided or has expired. Start again in the app."
    return message_page(request, "Request expired", text, status=409)


def _store_decision(
    request: HttpRequest, row: "PendingRequest", package_id: str | None, now: datetime
) -> HttpResponse:
    if not requests.decide(row, package_id=package_id, now=now):
        transaction.set_rollback(True)
        return _too_late(request)
    requests.mark_registration_used(row.registration, now=now)
    if package_id is None:
        return message_page(request, DENIED, "The app gets no access.", status=200)
    return message_page(request, ALLOWED, "You can return to the app.", status=200)


def _access_request(row: "PendingRequest") -> AccessRequest:
    details = dict(parse_qsl(row.parameters)).get("authorization_details")
    return AccessRequest(
        client=requesting_client(row.registration),
        resource=stored_resource(row.resource),
        redirect_host=None,
        details=parse_authorization_details(details),
        claims=client_claims(row.registration),
        expires_at=row.expires_at,
    )


def _code_page(request: HttpRequest, user_code: str, *, is_unknown: bool) -> HttpResponse:
    context = {"user_code": user_code[:20], "is_unknown": is_unknown}
    status = 422 if is_unknown else 200
    return render(request, "owner/oauth/device.html", context, status=status)


TOKEN_LIFETIME = timedelta(days=365)
DEVICE_METADATA = {"token_endpoint_auth_method": "none"}
INTERVAL_MS = {"interval_ms": limits.POLL_SECONDS * 1000}
"""Reference clients take `interval` for milliseconds too, and prefer this member."""


@endpoint
def agent_connect(request: HttpRequest) -> HttpResponse:
    """Return 201 with the approval URL for the owner and the polling URL for the client."""
    now = timezone.now()
    parameters = dict(posted_parameters(request))
    resource = required_resource([parameters.get("resource", "")], default="/v1")
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
    return json_response(_attempt_body(opened, registration, requested_url(request)), status=201)


@endpoint
def poll_token(request: HttpRequest, attempt_id: str) -> HttpResponse:
    """Return 202 until the owner decides, then the token at every poll."""
    now = timezone.now()
    code = dict(posted_parameters(request)).get("polling_code", "")
    with transaction.atomic():
        row = requests.lock_by_handle(requests.Kind.CONNECT, code)
        if row is None or row.request_id != attempt_id:
            raise RefusalError("Unknown polling code.", error="invalid_grant", status=401)
        if now >= row.expires_at + timedelta(seconds=limits.QUESTION_SECONDS) or (
            row.decided_at is None and now >= row.expires_at
        ):
            raise RefusalError("The attempt has expired. Start another.", error="expired_token")
        if row.decided_at is None:
            pending = {"error": "authorization_pending", "status": "pending"}
            body = {**pending, "interval": limits.POLL_SECONDS, **INTERVAL_MS}
            return json_response(body, status=202)
        if row.package_id is None or row.owner_id is None:
            raise RefusalError("The owner denied the request.", error="access_denied", status=403)
        act_for(row.owner_id)
        return json_response(_token_body(row, code, now))


def _registration(
    request: HttpRequest, parameters: dict[str, str], pushed: "PendingRequest | None", now: datetime
) -> "Registration":
    client_id = parameters.get("client_id") or (pushed and pushed.registration_id)
    if client_id or "Authorization" in request.headers:
        known = clients.authenticate_client(request, {**parameters, "client_id": client_id or ""})
        if pushed is not None and pushed.registration_id != known.pk:
            raise RefusalError(
                "Another client pushed the request.", error="invalid_client", status=403
            )
        require_device_grant(known)
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
    handle = uri.removeprefix(REQUEST_URI_PREFIX)
    if not handle:
        return None
    row = requests.find_by_handle(requests.Kind.PUSHED, handle)
    if row is None or row.expires_at <= now:
        raise RefusalError("The request is unknown or has expired.", error="expired_token")
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
