"""The device flow (RFC 8628): a program without a browser shows a code, the owner types it here."""

from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from evidence import limits
from evidence.access.oauth import requests
from evidence.errors import RateLimitExceeded
from owner.grants.access_request import Asked
from owner.grants.wizard import Approved, Denied, decided, review
from owner.oauth import authorization_details
from owner.oauth.authorization_request import claims
from owner.oauth.clients import NotRecognisedError, asking, recognised
from owner.oauth.responses import for_the_owner, refused, said, slowed, told
from owner.oauth.server import DEVICE_GRANT
from owner.oauth.uris import known, the_one
from owner.permissions import fenced

if TYPE_CHECKING:
    from evidence.models.oauth import PendingRequest

CODE = "user_code"


@csrf_exempt
@require_POST
def device_authorization(request: HttpRequest) -> HttpResponse:
    """200 with the code to show and the one to poll ``/oauth/token`` with."""
    try:
        registration = recognised(request, request.POST.dict())
        authorization_details.parsed(request.POST.get("authorization_details"))
    except NotRecognisedError as error:
        return refused("invalid_client", str(error), status=401 if error.tried else 400)
    except authorization_details.NotUnderstoodError as error:
        return refused("invalid_authorization_details", str(error))
    if DEVICE_GRANT not in registration.grant_types:
        return refused("unauthorized_client", "The client is not registered for the device grant.")
    resource = the_one(request.POST.getlist("resource"), default="/mcp")
    if resource is None:
        return refused("invalid_target", "The resource is not one of this server.")
    try:
        opened = requests.open_request(
            requests.Kind.DEVICE,
            urlencode({"authorization_details": request.POST.get("authorization_details", "")}),
            registration=registration,
            resource=resource,
            now=timezone.now(),
            typed=True,
        )
    except RateLimitExceeded as refusal:
        return slowed(refusal)
    return said({"device_code": opened.handle, **waiting(opened)})


def waiting(opened: requests.Opened) -> dict[str, object]:
    """Where the owner goes with which code, and how long there is."""
    address = f"{settings.PDPP_PUBLIC_URL}/device"
    return {
        CODE: opened.user_code,
        "verification_uri": address,
        "verification_uri_complete": f"{address}?{urlencode({CODE: opened.user_code})}",
        "expires_in": limits.QUESTION_SECONDS,
        "interval": limits.POLL_SECONDS,
    }


@require_http_methods(["GET", "HEAD", "POST"])
@for_the_owner
def device(request: HttpRequest) -> HttpResponse:
    """The owner types the code, sees who asks for what, and answers.

    A code in the address is only filled in: the owner has to compare it first, so that nobody can
    make them answer for somebody else's device by sending them a link.
    """
    now = timezone.now()
    typed = request.POST.get(CODE, "")
    if not typed:
        return _code_page(request, request.GET.get(CODE, ""), wrong=False)
    row = requests.by_user_code(typed, now=now)
    if row is None:
        return _code_page(request, typed, wrong=True)
    asked = _asked(row)
    if set(request.POST) <= {CODE, "csrfmiddlewaretoken"}:
        return review(request, asked, action_url=request.path, hidden={CODE: typed})
    with transaction.atomic():
        match decided(request, asked):
            case Approved(package_id):
                return _done(request, row, package_id, now)
            case Denied():
                return _done(request, row, None, now)
            case page:
                return page


def _done(
    request: HttpRequest, row: "PendingRequest", package_id: str | None, now: datetime
) -> HttpResponse:
    if not requests.decide(row, package_id=package_id, now=now):
        transaction.set_rollback(True)
        return told(request, "Too late", "The question has been answered or is over.", status=409)
    requests.note_use(row.registration, now=now)
    if package_id is None:
        return told(request, "Refused", "The program gets nothing.", status=200)
    return told(request, "Allowed", "You can go back to the program now.", status=200)


def _asked(row: "PendingRequest") -> Asked:
    parameters = dict(parse_qsl(row.parameters))
    return Asked(
        client=asking(row.registration),
        resource=known(row.resource),
        redirect_host=None,
        details=authorization_details.parsed(parameters.get("authorization_details")),
        claims=claims(row.registration),
        expires_at=row.expires_at,
    )


@fenced
def _code_page(request: HttpRequest, typed: str, *, wrong: bool) -> HttpResponse:
    context = {"typed": typed[:20], "wrong": wrong}
    status = 422 if wrong else 200
    return render(request, "owner/consent/device.html", context, status=status)
