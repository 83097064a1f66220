"""DRF authentication for bearer tokens, and the public URLs of this server."""

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from typing_extensions import override

from evidence.access.scope import Scope
from evidence.access.tokens import authenticate
from evidence.errors import AuthenticationRequired

RESOURCE = "/v1"
ON_ACCEPTED_KEY = "pdpp.accepted"
"""WSGI environment key of a callback that runs once the token is accepted."""
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
METADATA_PATH = "/.well-known/oauth-protected-resource"


class BearerAuthentication(BaseAuthentication):
    """Authenticate `Authorization: Bearer …`."""

    @override
    def authenticate(self, request: Request) -> tuple[None, Scope]:
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not bearer:
            raise AuthenticationRequired(
                resource_metadata=metadata_url(request),
                next_step="Read the metadata document, then obtain a scoped grant.",
            )
        try:
            scope = authenticate(bearer, resource=RESOURCE, now=timezone.now())
        except AuthenticationRequired as error:
            error.extra |= {
                "resource_metadata": metadata_url(request),
                "next_step": "Obtain a new token for this resource.",
            }
            raise
        if on_accepted := request.META.get(ON_ACCEPTED_KEY):
            on_accepted()
        return None, scope


class HasHost(Protocol):
    """A request of Django or of DRF."""

    @property
    def META(self) -> Mapping[str, Any]: ...  # noqa: N802 - Django's own name


def challenge(request: HasHost) -> str:
    """Return the challenge of a 401; it has an ``error`` only if a token was sent (RFC 6750)."""
    header = f'Bearer resource_metadata="{metadata_url(request)}"'
    token_sent = request.META.get("HTTP_AUTHORIZATION", "").startswith("Bearer ")
    return f'{header}, error="invalid_token"' if token_sent else header


def metadata_url(request: HasHost) -> str:
    return f"{requested_url(request)}{METADATA_PATH}"


def requested_url(request: HasHost) -> str:
    """Return the public URL of this server under the host name of the request."""
    return public_url(request.META.get("HTTP_HOST", ""))


def public_url(host: str) -> str:
    """Return the public URL under the requested host if that is a name of this server."""
    url: str = settings.PDPP_PUBLIC_URL
    named = urlsplit(url)._replace(netloc=host.lower()).geturl()
    return named if named in public_urls() else url


def public_urls() -> frozenset[str]:
    """Return every public URL: a server on loopback has one under each loopback name."""
    url = urlsplit(settings.PDPP_PUBLIC_URL)
    domain, port = split_domain_port(url.netloc)
    names = LOOPBACK_NAMES if domain in LOOPBACK_NAMES else frozenset[str]()
    end = f":{port}" if port else ""
    return frozenset(
        {url.geturl(), *(url._replace(netloc=f"{name}{end}").geturl() for name in names)}
    )
