"""``/oauth/par``: a request too large for an address is pushed first (RFC 9126).

Two forms are taken: the RFC's, a form of the parameters of ``/oauth/authorize``, and the reference's
JSON of ``{client_id, authorization_details}`` (contract 1.6), which ``/agent-connect`` then names.
"""

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from evidence import limits
from evidence.access.oauth import requests
from evidence.errors import RateLimitExceeded
from owner.oauth import authorization_details, authorization_request
from owner.oauth.clients import NotRecognisedError, recognised
from owner.oauth.responses import refused, said, slowed
from owner.oauth.uris import the_one

LARGEST = 256 * 1024


@csrf_exempt
@require_POST
def push(request: HttpRequest) -> HttpResponse:
    """201 with the ``request_uri`` under which the request is kept for five minutes."""
    if len(request.body) > LARGEST:
        return refused("invalid_request", "The request is too large.", status=413)
    now = timezone.now()
    parameters = _parameters(request)
    if "request_uri" in dict(parameters):
        return refused("invalid_request", "A pushed request names no request_uri.")
    try:
        return _kept(request, parameters, now)
    except NotRecognisedError as error:
        return refused("invalid_client", str(error), status=401 if error.tried else 400)
    except authorization_details.NotUnderstoodError as error:
        return refused("invalid_authorization_details", str(error))
    except RateLimitExceeded as refusal:
        return slowed(refusal)
    except authorization_request.UnanswerableError as error:
        return refused("invalid_request", str(error))
    except authorization_request.RefusedError as error:
        return refused(error.error, str(error))


def _kept(request: HttpRequest, parameters: list[tuple[str, str]], now: datetime) -> HttpResponse:
    sent = dict(parameters)
    registration = recognised(request, sent)
    parameters = [("client_id", registration.client_id)] + [
        (name, value) for name, value in parameters if name not in ("client_id", "client_secret")
    ]
    authorization_details.parsed(sent.get("authorization_details"))
    resource = the_one([v for n, v in parameters if n == "resource"], default="/mcp")
    if resource is None:
        return refused("invalid_target", "The resource is not one of this server.")
    if "response_type" in sent:
        authorization_request.read(urlencode(parameters), now=now)
    opened = requests.open_request(
        requests.Kind.PUSHED,
        urlencode(parameters),
        registration=registration,
        resource=resource,
        now=now,
    )
    uri = authorization_request.REQUEST_URI + opened.handle
    query = urlencode({"client_id": registration.client_id, "request_uri": uri})
    address = f"{settings.PDPP_PUBLIC_URL}/oauth/authorize?{query}"
    body = {
        "request_uri": uri,
        "authorization_url": address,
        "expires_in": limits.QUESTION_SECONDS,
    }
    return said(body, status=201)


def _parameters(request: HttpRequest) -> list[tuple[str, str]]:
    if request.content_type != "application/json":
        return [(name, value) for name, values in request.POST.lists() for value in values]
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return []
    if not isinstance(body, dict):
        return []
    return [(name, _text(value)) for name, value in body.items() if value is not None]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
