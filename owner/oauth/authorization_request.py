"""An authorization request, read and judged, and the question to the owner that it comes to.

Reading changes nothing; so a client may try an address before it opens a browser on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.conf import settings
from oauthlib.oauth2.rfc6749.errors import FatalClientError, OAuth2Error

from evidence import limits
from evidence.access.oauth import requests
from owner.grants.access_request import Asked, Resource
from owner.oauth import authorization_details
from owner.oauth.clients import asking
from owner.oauth.server import core, known_parameters
from owner.oauth.uris import host_of, the_one

if TYPE_CHECKING:
    from evidence.models.oauth import PendingRequest, Registration

REQUEST_URI = "urn:pdpp:pending-consent:"


class UnanswerableError(Exception):
    """The request names no client or no address that could be told: only a person can be."""


class RefusedError(Exception):
    """The request is refused, and the client is told so at ``redirect_uri``."""

    def __init__(
        self, redirect_uri: str, *, error: str, description: str, state: str | None
    ) -> None:
        super().__init__(description)
        self.error = error
        self.location = answered(
            redirect_uri, {"error": error, "error_description": description, "state": state}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request that may be put to the owner. ``query`` reads as the same question again."""

    query: str
    registration: "Registration"
    redirect_uri: str
    state: str | None
    code_challenge: str
    scopes: tuple[str, ...]
    resource: Resource
    details: str | None
    pushed: "PendingRequest | None" = None

    def asked(self, now: datetime) -> Asked:
        """What the owner is asked."""
        return Asked(
            client=asking(self.registration),
            resource=self.resource,
            redirect_host=host_of(self.redirect_uri),
            details=authorization_details.parsed(self.details),
            claims=claims(self.registration),
            expires_at=now + timedelta(seconds=limits.QUESTION_SECONDS * 2),
        )


def read(query: str, *, now: datetime) -> Question:
    """The question of a query string; a pushed one is looked up.

    Raises ``UnanswerableError`` and ``RefusedError``.
    """
    parameters, pushed = _expanded(parse_qsl(query, keep_blank_values=True), now)
    plain = urlencode(known_parameters(parameters))
    try:
        scopes, found = core().server.validate_authorization_request(
            f"{settings.PDPP_PUBLIC_URL}/oauth/authorize?{plain}"
        )
    except FatalClientError as error:
        raise UnanswerableError(error.description or str(error.error)) from None
    except OAuth2Error as error:
        raise RefusedError(
            error.redirect_uri,
            error=str(error.error),
            description=error.description,
            state=error.state,
        ) from None
    return replace(_question(query, parameters, found, scopes), pushed=pushed)


def _question(
    query: str, parameters: list[tuple[str, str]], found: Mapping[str, Any], scopes: list[str]
) -> Question:
    request = found["request"]
    last = dict(parameters)
    resource = the_one([v for n, v in parameters if n == "resource"], default="/mcp")
    if resource is None:
        raise RefusedError(
            found["redirect_uri"],
            error="invalid_target",
            description="The resource is not one of this server, or there is more than one.",
            state=found["state"],
        )
    try:
        authorization_details.parsed(last.get("authorization_details"))
    except authorization_details.NotUnderstoodError as error:
        raise RefusedError(
            found["redirect_uri"],
            error="invalid_authorization_details",
            description=str(error),
            state=found["state"],
        ) from None
    return Question(
        query=query,
        registration=request.client,
        redirect_uri=found["redirect_uri"],
        state=found["state"],
        code_challenge=found["code_challenge"],
        scopes=tuple(scopes),
        resource=resource,
        details=last.get("authorization_details"),
    )


def claims(registration: "Registration") -> dict[str, str]:
    """The client's own words beside its name, by their names in its metadata."""
    shown = (
        "client_name",
        "client_uri",
        "policy_uri",
        "tos_uri",
        "software_id",
        "software_version",
    )
    said = registration.metadata
    return {name: said[name] for name in shown if isinstance(said.get(name), str) and said[name]}


def client_id_of(query: str) -> str | None:
    """Who asks, before anything is judged."""
    return dict(parse_qsl(query)).get("client_id")


def answered(redirect_uri: str, answer: Mapping[str, str | None]) -> str:
    """The address with the answer in its query, and who gives it (RFC 9207)."""
    parts = urlsplit(redirect_uri)
    kept = [(n, v) for n, v in parse_qsl(parts.query, keep_blank_values=True) if n != "iss"]
    said = [(name, value) for name, value in answer.items() if value is not None]
    said.append(("iss", settings.PDPP_PUBLIC_URL))
    return urlunsplit(parts._replace(query=urlencode(kept + said)))


def _expanded(
    parameters: list[tuple[str, str]], now: datetime
) -> "tuple[list[tuple[str, str]], PendingRequest | None]":
    """The parameters, or those that the client pushed before (RFC 9126) and their row."""
    sent = dict(parameters)
    handle = sent.get("request_uri", "")
    if not handle:
        return parameters, None
    row = requests.by_handle(requests.Kind.PUSHED, handle.removeprefix(REQUEST_URI))
    known = row is not None and row.used_at is None and row.expires_at > now
    if row is None or not known or row.registration_id != sent.get("client_id"):
        raise UnanswerableError("The request is not known any more. Start again from the client.")
    return parse_qsl(row.parameters, keep_blank_values=True), row
