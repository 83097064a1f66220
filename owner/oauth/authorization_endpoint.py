"""Authorization requests (RFC 6749), also pushed ones (RFC 9126): validation and the consent page.

A pushed request comes as a form, or for ``/agent-connect`` as JSON ``{client_id, authorization_details}``
(contract 1.6). `authorization_details` (RFC 9396) are parsed strictly, because ignoring an unknown
restriction would give a client more than it requested. Validation and GET change nothing: the page
carries the signed request, which is validated again on POST.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import orjson
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core import signing
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods
from oauthlib.oauth2.rfc6749.errors import FatalClientError, OAuth2Error
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, TypeAdapter
from pydantic import ValidationError as InvalidMembers

from evidence import limits
from evidence.access.grant_states import DATA_ACCESS
from evidence.access.grants import DEFAULT_PURPOSE
from evidence.api.authentication import requested_url
from owner.grants.grantable_sources import AccessRequest, RequestedAccess, RequestedStream, Resource
from owner.grants.wizard import Approved, Denied, handle_decision, show_review
from owner.oauth import clients, requests, tokens
from owner.oauth.clients import authenticate_client, requesting_client
from owner.oauth.responses import (
    RefusalError,
    allow_form_redirect,
    default_description,
    display_host,
    endpoint,
    json_response,
    message_page,
    redirect_to_client,
    required_resource,
    single_resource,
)
from owner.oauth.server import known_parameters, oauth_backend
from owner.permissions import is_owner

MAX_DETAILS, MAX_STREAMS, MAX_NAMES = 20, 200, 1_000


def _parse_time(value: object) -> datetime:
    try:
        time = datetime.fromisoformat(cast("str", value))
    except TypeError as error:
        raise ValueError("must be an RFC 3339 date-time") from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


Text: TypeAlias = Annotated[str, StringConstraints(max_length=2_000, pattern="^[^\x00]*$")]
Names: TypeAlias = Annotated[tuple[Text, ...], Field(max_length=MAX_NAMES)]
Moment: TypeAlias = Annotated[datetime, BeforeValidator(_parse_time)]


class _Members(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _TimeConstraint(_Members):
    field: Any = None
    since: Moment | None = None
    until: Moment | None = None


class _Stream(_Members):
    name: Text
    fields: Names | None = None
    view: Text | None = None
    instance_ids: Names | None = None
    resources: Names | None = None
    time_constraint: _TimeConstraint | None = None

    def requested(self) -> RequestedStream:
        time = self.time_constraint or _TimeConstraint()
        members = {name: value for name, value in self if name != "time_constraint"}
        return RequestedStream(**members, since=time.since, until=time.until)


class _Source(BaseModel):
    model_config = ConfigDict(strict=True)

    kind: Text = "connector"
    id: Text


class _Detail(_Members):
    type: Annotated[str, StringConstraints(pattern=f"^{re.escape(DATA_ACCESS)}$")]
    source: _Source
    streams: Annotated[tuple[_Stream, ...], Field(max_length=MAX_STREAMS)] = ()
    purpose_code: Text = DEFAULT_PURPOSE
    purpose_description: Text = ""
    access_mode: Literal["continuous", "single_use"] = "continuous"
    retention: dict[str, Any] | None = None
    expires_at: Moment | None = None
    locations: Any = None
    selection_preset: Any = None


_DETAILS = TypeAdapter(Annotated[list[_Detail], Field(min_length=1, max_length=MAX_DETAILS)])


class InvalidAuthorizationDetailsError(RefusalError):
    """The message tells the client's developer which member is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message, error="invalid_authorization_details")


def parse_authorization_details(text: str | None) -> tuple[RequestedAccess, ...]:
    """Return the requested access, empty for no text. Raises InvalidAuthorizationDetailsError."""
    if not text:
        return ()
    try:
        details = _DETAILS.validate_json(text)
    except InvalidMembers as error:
        [first, *_] = error.errors(include_url=False, include_input=False)
        member = ".".join(str(each)[:60] for each in ("authorization_details", *first["loc"]))
        raise InvalidAuthorizationDetailsError(f"{member}: {first['msg']}.") from None
    return tuple(
        RequestedAccess(
            source_kind=each.source.kind,
            source_id=each.source.id,
            streams=tuple(stream.requested() for stream in each.streams),
            purpose_code=each.purpose_code,
            purpose_description=each.purpose_description,
            access_mode=each.access_mode,
            retention=each.retention,
            expires_at=each.expires_at,
        )
        for each in details
    )


if TYPE_CHECKING:
    from owner.oauth.models import PendingRequest, Registration


S256_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
UNREGISTERED = "The app is not registered here, or named another address than it registered."
REQUEST_URI_PREFIX = "urn:pdpp:pending-consent:"


class FatalAuthorizationError(RefusalError):
    """The client or its redirect URI is unknown, so the error is shown to the user instead."""


class AuthorizationError(RefusalError):
    """The request is refused; the location returns the error to the client `client_id`."""

    def __init__(
        self, redirect_uri: str, *, client_id: str, error: str, description: str, state: str | None
    ) -> None:
        description = description or default_description(error)
        super().__init__(description, error=error)
        self.client_id = client_id
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
            details=parse_authorization_details(self.details),
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
    except FatalClientError:
        raise FatalAuthorizationError(UNREGISTERED) from None
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
        parse_authorization_details(details)
    except InvalidAuthorizationDetailsError as error:
        return "invalid_authorization_details", str(error)
    return None


def client_claims(registration: "Registration") -> dict[str, str]:
    """Return the client's unverified statements about itself, by metadata name."""
    names = (
        "client_name", "client_uri", "policy_uri", "tos_uri", "software_id", "software_version",
    )  # fmt: skip
    metadata = registration.metadata
    given = {name: metadata.get(name) for name in names}
    return {name: text for name, text in given.items() if isinstance(text, str) and text}


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


@endpoint
def push(request: HttpRequest) -> HttpResponse:
    """Store a request for five minutes and return its ``request_uri``."""
    if len(request.body) > MAX_BYTES:
        raise RefusalError("The request is too large.", status=413)
    now, parameters = timezone.now(), posted_parameters(request)
    values = dict(parameters)
    if "request_uri" in values:
        raise RefusalError("request_uri is not allowed in a pushed request.")
    registration = authenticate_client(request, values)
    parameters = [("client_id", registration.client_id)] + [
        (name, value) for name, value in parameters if name not in ("client_id", "client_secret")
    ]
    parse_authorization_details(values.get("authorization_details"))
    resource = required_resource([v for n, v in parameters if n == "resource"])
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
    body = {"request_uri": uri, "authorization_url": url, "expires_in": limits.QUESTION_SECONDS}
    return json_response(body, status=201)


def posted_parameters(request: HttpRequest) -> list[tuple[str, str]]:
    """Return the members of a form or of a JSON object; those that are no text as JSON."""
    if request.content_type != "application/json":
        return [(name, value) for name, values in request.POST.lists() for value in values]
    try:
        body = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return []
    if not isinstance(body, dict):
        return []
    return [
        (name, value if isinstance(value, str) else orjson.dumps(value).decode())
        for name, value in body.items()
        if value is not None
    ]


SIGNED_QUERY = "question"
SALT = "pdpp/authorize"
START_AGAIN = "No access was given. Start again in the app."


@require_http_methods(["GET", "HEAD", "POST"])
def authorize(request: HttpRequest) -> HttpResponse:
    """Show the consent page, or handle the owner's decision on POST."""
    now = timezone.now()
    try:
        if request.method == "POST":
            return _handle_post(request, now)
        return _show_page(request, now)
    except clients.MetadataDocumentError as error:
        return message_page(
            request, "Cannot identify this app", f"{error} {START_AGAIN}", status=400
        )
    except FatalAuthorizationError as error:
        return message_page(request, "Invalid request", f"{error} {START_AGAIN}", status=400)
    except AuthorizationError as error:
        # Anyone can register an address. It gets no redirect before the owner has answered its app
        # once, or links to this server would lead anywhere (RFC 9700, 4.11.2).
        if is_owner(request.user) and requests.was_answered(error.client_id):
            return redirect_to_client(error.location(requested_url(request)))
        text = f"{default_description(error.error)} {START_AGAIN}"
        return message_page(request, "Invalid request", text, status=400)


def _show_page(request: HttpRequest, now: datetime) -> HttpResponse:
    query = request.META.get("QUERY_STRING", "")
    client_id = dict(parse_qsl(query)).get("client_id")
    is_signed_in = is_owner(request.user)
    if client_id and clients.is_document_url(client_id) and clients.is_stale(client_id, now=now):
        if not is_signed_in:
            return redirect_to_login(request.get_full_path())
        _fetch_document(client_id, now)
    authorization = validate_authorization_request(query, now=now)
    if not is_signed_in:
        return redirect_to_login(request.get_full_path())
    page = show_review(
        request,
        authorization.access_request(now),
        action_url=request.path,
        hidden={SIGNED_QUERY: signing.dumps([authorization.query, request.user.pk], salt=SALT)},
    )
    return allow_form_redirect(page, authorization.redirect_uri)


def _fetch_document(client_id: str, now: datetime) -> None:
    try:
        clients.fetch_document(client_id, now=now)
    except clients.MetadataDocumentError:
        # A stored document stays valid until it can be fetched again.
        if requests.find_registration(client_id) is None:
            raise


def _handle_post(request: HttpRequest, now: datetime) -> HttpResponse:
    if not is_owner(request.user):
        return message_page(request, "You are not signed in", START_AGAIN, status=403)
    query = _verified_query(request)
    authorization = validate_authorization_request(query, now=now)
    with transaction.atomic():
        match handle_decision(request, authorization.access_request(now)):
            case Approved(package_id):
                return redirect_to_client(_success_url(request, authorization, package_id, now))
            case Denied():
                return redirect_to_client(_denial_url(request, authorization))
            case page:
                return allow_form_redirect(page, authorization.redirect_uri)


def _verified_query(request: HttpRequest) -> str:
    max_age = 2 * limits.QUESTION_SECONDS
    try:
        query, user_pk = signing.loads(
            request.POST.get(SIGNED_QUERY, ""), salt=SALT, max_age=max_age
        )
    except signing.SignatureExpired:
        raise FatalAuthorizationError("The request expired after ten minutes.") from None
    except signing.BadSignature:
        raise FatalAuthorizationError("The form was not issued by this server.") from None
    if user_pk != request.user.pk:
        raise FatalAuthorizationError("The form was issued to another account.")
    return str(query)


def _success_url(
    request: HttpRequest, authorization: AuthorizationRequest, package_id: str, now: datetime
) -> str:
    requests.mark_registration_used(authorization.registration, now=now)
    if authorization.pushed is not None:
        requests.mark_answer_fetched(authorization.pushed, now=now)
    answer = tokens.CodeTerms(
        package_id=package_id,
        resource=authorization.resource,
        scope=" ".join(authorization.scopes),
        redirect_uri=authorization.redirect_uri,
        code_challenge=authorization.code_challenge,
    )
    code = tokens.create_code(answer, registration=authorization.registration, now=now)
    return redirect_url(
        authorization.redirect_uri,
        {"code": code, "state": authorization.state},
        issuer=requested_url(request),
    )


def _denial_url(request: HttpRequest, authorization: AuthorizationRequest) -> str:
    parameters = {
        "error": "access_denied",
        "error_description": "The owner denied the request.",
        "state": authorization.state,
    }
    return redirect_url(authorization.redirect_uri, parameters, issuer=requested_url(request))
