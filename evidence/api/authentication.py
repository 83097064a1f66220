"""DRF authentication for bearer tokens, or for a scope authenticated in this process."""

from django.conf import settings
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
METADATA_PATH = "/.well-known/oauth-protected-resource"


class BearerAuthentication(BaseAuthentication):
    """Authenticate `Authorization: Bearer …`, or a scope that the MCP adapter authenticated."""

    @override
    def authenticate(self, request: Request) -> tuple[None, Scope]:
        scope = getattr(request._request, "pdpp_scope", None)  # noqa: SLF001 - DRF's own name
        if isinstance(scope, Scope):
            return None, scope
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not bearer:
            raise AuthenticationRequired(
                resource_metadata=metadata_url(),
                next_step="Read the metadata document, then obtain a scoped grant.",
            )
        try:
            scope = authenticate(bearer, resource=RESOURCE, now=timezone.now())
        except AuthenticationRequired as error:
            error.extra |= {
                "resource_metadata": metadata_url(),
                "next_step": "Obtain a new token for this resource.",
            }
            raise
        if on_accepted := request.META.get(ON_ACCEPTED_KEY):
            on_accepted()
        return None, scope

    @override
    def authenticate_header(self, request: Request) -> str:
        return f'Bearer resource_metadata="{metadata_url()}"'


def metadata_url() -> str:
    return f"{settings.PDPP_PUBLIC_URL}{METADATA_PATH}"
