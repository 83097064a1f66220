"""Pushed authorization requests (RFC 9126), as a form or as the reference's JSON.

The JSON form ``{client_id, authorization_details}`` (contract 1.6) is for ``/agent-connect``.
"""

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import orjson
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from evidence import limits
from evidence.access.oauth import requests
from evidence.api.authentication import requested_url
from evidence.errors import RateLimitExceeded
from owner.oauth import authorization_details, authorization_request
from owner.oauth.clients import InvalidClientError, authenticate_client
from owner.oauth.responses import (
    client_error_response,
    error_response,
    json_response,
    rate_limited_response,
)
from owner.oauth.uris import single_resource

MAX_BYTES = 256 * 1024


@csrf_exempt
@require_POST
def push(request: HttpRequest) -> HttpResponse:
    """Store a request for five minutes and return its ``request_uri``."""
    if len(request.body) > MAX_BYTES:
        return error_response("invalid_request", "The request is too large.", status=413)
    now = timezone.now()
    parameters = _parameters(request)
    if "request_uri" in dict(parameters):
        return error_response("invalid_request", "request_uri is not allowed in a pushed request.")
    try:
        return _store(request, parameters, now)
    except InvalidClientError as error:
        return client_error_response(error)
    except authorization_details.InvalidAuthorizationDetailsError as error:
        return error_response("invalid_authorization_details", str(error))
    except RateLimitExceeded as error:
        return rate_limited_response(error)
    except authorization_request.FatalAuthorizationError as error:
        return error_response("invalid_request", str(error))
    except authorization_request.AuthorizationError as error:
        return error_response(error.error, str(error))


def _store(request: HttpRequest, parameters: list[tuple[str, str]], now: datetime) -> HttpResponse:
    values = dict(parameters)
    registration = authenticate_client(request, values)
    parameters = [("client_id", registration.client_id)] + [
        (name, value) for name, value in parameters if name not in ("client_id", "client_secret")
    ]
    authorization_details.parse_authorization_details(values.get("authorization_details"))
    resource = single_resource([v for n, v in parameters if n == "resource"], default="/mcp")
    if resource is None:
        return error_response("invalid_target", "resource must name a resource of this server.")
    if "response_type" in values:
        authorization_request.validate_authorization_request(urlencode(parameters), now=now)
    opened = requests.open_request(
        requests.Kind.PUSHED,
        urlencode(parameters),
        registration=registration,
        resource=resource,
        now=now,
    )
    uri = authorization_request.REQUEST_URI_PREFIX + opened.handle
    query = urlencode({"client_id": registration.client_id, "request_uri": uri})
    url = f"{requested_url(request)}/oauth/authorize?{query}"
    body = {
        "request_uri": uri,
        "authorization_url": url,
        "expires_in": limits.QUESTION_SECONDS,
    }
    return json_response(body, status=201)


def _parameters(request: HttpRequest) -> list[tuple[str, str]]:
    if request.content_type != "application/json":
        return [(name, value) for name, values in request.POST.lists() for value in values]
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return []
    if not isinstance(body, dict):
        return []
    return [(name, _as_text(value)) for name, value in body.items() if value is not None]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
