"""Validate authorization requests, pushed ones (RFC 9126) too, and build the access request.

A pushed request comes as a form, or for ``/agent-connect`` as JSON ``{client_id, authorization_details}``
(contract 1.6). Validation changes nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import orjson
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from oauthlib.oauth2.rfc6749.errors import FatalClientError, OAuth2Error

from evidence import limits
from evidence.api.authentication import requested_url
from evidence.errors import RateLimitExceeded
from owner.grants.access_request import AccessRequest, Resource
from owner.oauth import authorization_details, requests
from owner.oauth.clients import InvalidClientError, authenticate_client, requesting_client
from owner.oauth.responses import (
    client_error_response,
    default_description,
    error_response,
    json_response,
    rate_limited_response,
)
from owner.oauth.server import known_parameters, oauth_backend
from owner.oauth.uris import display_host, single_resource

if TYPE_CHECKING:
    from owner.oauth.models import PendingRequest, Registration


S256_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
REQUEST_URI_PREFIX = "urn:pdpp:pending-consent:"


class FatalAuthorizationError(Exception):
    """The client or its redirect URI is unknown, so the error is shown to the user instead."""


class AuthorizationError(Exception):
    """The request is refused; the location returns the error to the client `client_id`."""

    def __init__(
        self, redirect_uri: str, *, client_id: str, error: str, description: str, state: str | None
    ) -> None:
        description = description or default_description(error)
        super().__init__(description)
        self.client_id, self.error = client_id, error
        self._redirect_uri = redirect_uri
        self._members = {"error": error, "error_description": description, "state": state}

    def location(self, issuer: str) -> str:
        """Return the redirect URI with the error."""
        return redirect_url(self._redirect_uri, self._members, issuer=issuer)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRequest:
    """A valid request. Validating `query` again gives the same request."""

    query: str
    registration: "Registration"
    redirect_uri: str
    state: str | None
    code_challenge: str
    scopes: tuple[str, ...]
    resource: Resource
    details: str | None
    pushed: "PendingRequest | None" = None

    def access_request(self, now: datetime) -> AccessRequest:
        """Return what the owner decides on."""
        return AccessRequest(
            client=requesting_client(self.registration),
            resource=self.resource,
            redirect_host=display_host(self.redirect_uri),
            details=authorization_details.parse_authorization_details(self.details),
            claims=client_claims(self.registration),
            expires_at=now + timedelta(seconds=limits.QUESTION_SECONDS * 2),
        )


def validate_authorization_request(query: str, *, now: datetime) -> AuthorizationRequest:
    """Validate the parameters of a query string or of the pushed request that it names.

    Raises FatalAuthorizationError or AuthorizationError.
    """
    parameters, pushed = _pushed_parameters(parse_qsl(query, keep_blank_values=True), now)
    known = urlencode(known_parameters(parameters))
    try:
        scopes, credentials = oauth_backend().server.validate_authorization_request(
            f"{settings.PDPP_PUBLIC_URL}/oauth/authorize?{known}"
        )
    except FatalClientError as error:
        raise FatalAuthorizationError(error.description or str(error.error)) from None
    except OAuth2Error as error:
        raise AuthorizationError(
            error.redirect_uri,
            client_id=error.client_id,
            error=str(error.error),
            description=error.description,
            state=error.state,
        ) from None
    return replace(_build_request(query, parameters, credentials, scopes), pushed=pushed)


def _build_request(
    query: str, parameters: list[tuple[str, str]], credentials: Mapping[str, Any], scopes: list[str]
) -> AuthorizationRequest:
    details = dict(parameters).get("authorization_details")
    resource = single_resource([v for n, v in parameters if n == "resource"], default="/mcp")
    problem = _problem(credentials["code_challenge"], resource, details)
    if problem is not None or resource is None:
        error, description = problem or ("invalid_target", "")
        raise AuthorizationError(
            credentials["redirect_uri"],
            client_id=credentials["client_id"],
            error=error,
            description=description,
            state=credentials["state"],
        )
    return AuthorizationRequest(
        query=query,
        registration=credentials["request"].client,
        redirect_uri=credentials["redirect_uri"],
        state=credentials["state"],
        code_challenge=credentials["code_challenge"],
        scopes=tuple(scopes),
        resource=resource,
        details=details,
    )


def _problem(
    code_challenge: str, resource: Resource | None, details: str | None
) -> tuple[str, str] | None:
    """Return error and description of a parameter that the library does not check."""
    if not S256_CHALLENGE.fullmatch(code_challenge):
        return "invalid_request", "code_challenge must be 43 characters of base64url (S256)."
    if resource is None:
        return "invalid_target", "resource must name exactly one resource of this server."
    try:
        authorization_details.parse_authorization_details(details)
    except authorization_details.InvalidAuthorizationDetailsError as error:
        return "invalid_authorization_details", str(error)
    return None


def client_claims(registration: "Registration") -> dict[str, str]:
    """Return the client's unverified statements about itself, by metadata name."""
    names = (
        "client_name",
        "client_uri",
        "policy_uri",
        "tos_uri",
        "software_id",
        "software_version",
    )
    metadata = registration.metadata
    return {
        name: metadata[name]
        for name in names
        if isinstance(metadata.get(name), str) and metadata[name]
    }


def client_id_of(query: str) -> str | None:
    """Return the client id of a request that is not validated yet."""
    return dict(parse_qsl(query)).get("client_id")


def redirect_url(redirect_uri: str, parameters: Mapping[str, str | None], *, issuer: str) -> str:
    """Add response parameters and the issuer (RFC 9207) to a redirect URI."""
    parts = urlsplit(redirect_uri)
    query = [(n, v) for n, v in parse_qsl(parts.query, keep_blank_values=True) if n != "iss"]
    query += [(name, value) for name, value in parameters.items() if value is not None]
    query.append(("iss", issuer))
    return urlunsplit(parts._replace(query=urlencode(query)))


def _pushed_parameters(
    parameters: list[tuple[str, str]], now: datetime
) -> "tuple[list[tuple[str, str]], PendingRequest | None]":
    """Return the parameters that the client pushed before (RFC 9126) and their row, if any."""
    values = dict(parameters)
    handle = values.get("request_uri", "")
    if not handle:
        return parameters, None
    row = requests.find_by_handle(requests.Kind.PUSHED, handle.removeprefix(REQUEST_URI_PREFIX))
    is_usable = row is not None and row.used_at is None and row.expires_at > now
    if row is None or not is_usable or row.registration_id != values.get("client_id"):
        raise FatalAuthorizationError("The request is unknown or has expired.")
    return parse_qsl(row.parameters, keep_blank_values=True), row


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
    except FatalAuthorizationError as error:
        return error_response("invalid_request", str(error))
    except AuthorizationError as error:
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
        validate_authorization_request(urlencode(parameters), now=now)
    opened = requests.open_request(
        requests.Kind.PUSHED,
        urlencode(parameters),
        registration=registration,
        resource=resource,
        now=now,
    )
    uri = REQUEST_URI_PREFIX + opened.handle
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
