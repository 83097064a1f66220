"""Device authorization grant (RFC 8628): issue a user code and let the owner confirm it."""

from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from evidence import limits
from evidence.api.authentication import requested_url
from evidence.errors import RateLimitExceeded
from owner.grants.access_request import AccessRequest
from owner.grants.wizard import Approved, Denied, handle_decision, show_review
from owner.oauth import authorization_details, requests
from owner.oauth.authorization_request import client_claims
from owner.oauth.clients import InvalidClientError, authenticate_client, requesting_client
from owner.oauth.responses import (
    client_error_response,
    error_response,
    json_response,
    message_page,
    owner_or_sign_in,
    rate_limited_response,
)
from owner.oauth.server import DEVICE_GRANT
from owner.oauth.uris import single_resource, stored_resource
from owner.permissions import with_security_headers

if TYPE_CHECKING:
    from owner.oauth.models import PendingRequest

USER_CODE = "user_code"


@csrf_exempt
@require_POST
def device_authorization(request: HttpRequest) -> HttpResponse:
    """Return a user code to show and a device code to poll ``/oauth/token`` with."""
    details = request.POST.get("authorization_details", "")
    try:
        registration = authenticate_client(request, request.POST.dict())
        authorization_details.parse_authorization_details(details)
    except InvalidClientError as error:
        return client_error_response(error)
    except authorization_details.InvalidAuthorizationDetailsError as error:
        return error_response("invalid_authorization_details", str(error))
    if DEVICE_GRANT not in registration.grant_types:
        return error_response(
            "unauthorized_client", "The client is not registered for the device grant."
        )
    resource = single_resource(request.POST.getlist("resource"), default="/mcp")
    if resource is None:
        return error_response("invalid_target", "resource must name a resource of this server.")
    try:
        opened = requests.open_request(
            requests.Kind.DEVICE,
            urlencode({"authorization_details": details}),
            registration=registration,
            resource=resource,
            now=timezone.now(),
            typed=True,
        )
    except RateLimitExceeded as error:
        return rate_limited_response(error)
    return json_response(
        {"device_code": opened.handle, **device_response(opened, requested_url(request))}
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


@require_http_methods(["GET", "HEAD", "POST"])
@owner_or_sign_in
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


def _store_decision(
    request: HttpRequest, row: "PendingRequest", package_id: str | None, now: datetime
) -> HttpResponse:
    if not requests.decide(row, package_id=package_id, now=now):
        transaction.set_rollback(True)
        text = "The request was already decided or has expired. Start again in the app."
        return message_page(request, "Request expired", text, status=409)
    requests.mark_registration_used(row.registration, now=now)
    if package_id is None:
        return message_page(request, "Access denied", "The app gets no access.", status=200)
    return message_page(request, "Access allowed", "You can return to the app.", status=200)


def _access_request(row: "PendingRequest") -> AccessRequest:
    details = dict(parse_qsl(row.parameters)).get("authorization_details")
    return AccessRequest(
        client=requesting_client(row.registration),
        resource=stored_resource(row.resource),
        redirect_host=None,
        details=authorization_details.parse_authorization_details(details),
        claims=client_claims(row.registration),
        expires_at=row.expires_at,
    )


@with_security_headers
def _code_page(request: HttpRequest, user_code: str, *, is_unknown: bool) -> HttpResponse:
    context = {"user_code": user_code[:20], "is_unknown": is_unknown}
    status = 422 if is_unknown else 200
    return render(request, "owner/oauth/device.html", context, status=status)
