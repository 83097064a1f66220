"""``/agent-connect``: how ``pdpp connect`` gets a grant (contract 1.8).

The command line opens a question, sends the owner to it and asks again and again. The owner answers
on the page of the device flow, with the code filled in. The token is made anew from the polling code at
each request, so that asking twice gives the same one and none has to be kept.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from evidence import limits
from evidence.access import grant_states
from evidence.access.oauth import requests, tokens
from evidence.errors import RateLimitExceeded
from owner.oauth import authorization_request, client_metadata
from owner.oauth.device_flow import waiting
from owner.oauth.responses import refused, said, slowed
from owner.oauth.uris import SCOPE, the_one

if TYPE_CHECKING:
    from evidence.models.oauth import PendingRequest, Registration

BUILT_FOR = timedelta(days=365)
DEVICE_ONLY = {"token_endpoint_auth_method": "none"}


@csrf_exempt
@require_POST
def agent_connect(request: HttpRequest) -> HttpResponse:
    """201 with where the owner goes and where the program asks."""
    now = timezone.now()
    sent = _sent(request)
    resource = the_one([sent.get("resource", "")], default="/v1")
    if resource is None:
        return refused("invalid_target", "The resource is not one of this server.")
    try:
        pushed = _pushed(sent, now)
        registration = _registration(request, sent, pushed, now)
        opened = requests.open_request(
            requests.Kind.CONNECT,
            pushed.parameters if pushed is not None else "",
            registration=registration,
            resource=resource,
            now=now,
            typed=True,
        )
    except _WrongError as error:
        return refused(error.error, str(error), status=error.status)
    except client_metadata.NotAcceptedError as error:
        return refused("invalid_request", str(error))
    except RateLimitExceeded as refusal:
        return slowed(refusal)
    return said(_attempt(opened, registration), status=201)


@csrf_exempt
@require_POST
def attempt_token(request: HttpRequest, attempt_id: str) -> HttpResponse:
    """202 while the owner has not answered; then the token, as often as it is asked for."""
    now = timezone.now()
    code = _sent(request).get("polling_code", "")
    with transaction.atomic():
        row = requests.by_handle_for_update(requests.Kind.CONNECT, code)
        if row is None or row.request_id != attempt_id:
            return refused("invalid_grant", "The polling code is not known.", status=401)
        if now >= row.expires_at + timedelta(seconds=limits.QUESTION_SECONDS) or (
            row.decided_at is None and now >= row.expires_at
        ):
            return refused("expired_token", "The attempt is over. Start another.")
        if row.decided_at is None:
            waits = {"error": "authorization_pending", "status": "pending"}
            return said({**waits, "interval": limits.POLL_SECONDS, **_TIMING}, status=202)
        if row.package is None:
            return refused("access_denied", "The owner said no.", status=403)
        return said(_credential(row, code, now))


_TIMING = {"interval_ms": limits.POLL_SECONDS * 1000}
"""Clients of the reference take both numbers for milliseconds, and this one before the other."""


class _WrongError(Exception):
    def __init__(self, error: str, description: str, *, status: int = 400) -> None:
        super().__init__(description)
        self.error, self.status = error, status


def _registration(
    request: HttpRequest, sent: dict[str, str], pushed: "PendingRequest | None", now: datetime
) -> "Registration":
    client_id = sent.get("client_id")
    if pushed is not None:
        if client_id not in (None, pushed.registration_id):
            raise _WrongError("invalid_client", "Another client pushed the request.", status=403)
        return pushed.registration
    if client_id:
        known = requests.found(client_id)
        if known is None:
            raise _WrongError("invalid_client", "The client is not known. Register it first.")
        return known
    introduction = client_metadata.read({**DEVICE_ONLY, "client_name": sent.get("client_name", "")})
    address = request.META.get("REMOTE_ADDR", "")
    row, _ = requests.register(introduction, address=address, now=now)
    return row


def _pushed(sent: dict[str, str], now: datetime) -> "PendingRequest | None":
    handle = sent.get("request_uri", "").removeprefix(authorization_request.REQUEST_URI)
    if not handle:
        return None
    row = requests.by_handle(requests.Kind.PUSHED, handle)
    if row is None or row.expires_at <= now:
        raise _WrongError("expired_token", "The request is not known any more.")
    return row


def _attempt(opened: requests.Opened, registration: "Registration") -> dict[str, Any]:
    where = waiting(opened)
    poll = f"{settings.PDPP_PUBLIC_URL}/agent-connect/{opened.row.request_id}/token"
    return {
        "object": "agent_connect_attempt",
        "id": opened.row.request_id,
        "status": "pending",
        "client_id": registration.client_id,
        "approval_url": where["verification_uri_complete"],
        "poll_url": poll,
        "token_url": poll,
        "polling_code": opened.handle,
        **_TIMING,
        **where,
    }


def _credential(row: "PendingRequest", code: str, now: datetime) -> dict[str, Any]:
    if row.package is None or row.decided_at is None:
        raise TypeError("nothing was allowed")
    bearer = tokens.bearer_of(code)
    expires_at = row.decided_at + BUILT_FOR
    tokens.keep_once(bearer, row.package, resource=row.resource, now=now, expires_at=expires_at)
    grants = [
        grant_states.as_detail(each) for each in grant_states.usable_grants(row.package.pk, now=now)
    ]
    return {
        "access_token": bearer,
        "token_type": "Bearer",
        "expires_in": int((expires_at - now).total_seconds()),
        "scope": SCOPE,
        "status": "approved",
        **grant_states.held_by(row.package.pk, now=now),
        **({"grant": grants[0]} if len(grants) == 1 else {"grants": grants}),
    }


def _sent(request: HttpRequest) -> dict[str, str]:
    """The members of a JSON object, or of a form, that are texts."""
    if request.content_type != "application/json":
        return request.POST.dict()
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return {}
    named = body.items() if isinstance(body, dict) else ()
    return {name: value for name, value in named if isinstance(value, str)}
