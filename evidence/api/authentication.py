"""Who asks, as the framework wants to be told."""

from django.conf import settings
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from typing_extensions import override

from evidence.access.scope import Scope
from evidence.access.tokens import authenticate
from evidence.errors import AuthenticationRequired

RESOURCE = "/v1"
ACCEPTED = "pdpp.accepted"
"""In the environment of a request: what to call once its credential is accepted."""
METADATA_PATH = "/.well-known/oauth-protected-resource"


class BearerAuthentication(BaseAuthentication):
    """``Authorization: Bearer …`` or, in this process only, a scope already authenticated."""

    @override
    def authenticate(self, request: Request) -> tuple[None, Scope]:
        handed_over = getattr(request._request, "pdpp_scope", None)  # noqa: SLF001 - DRF's own name
        if isinstance(handed_over, Scope):
            return None, handed_over
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not bearer:
            raise AuthenticationRequired(
                resource_metadata=metadata_url(),
                next_step="Read the metadata document, then obtain a scoped grant.",
            )
        try:
            scope = authenticate(bearer, resource=RESOURCE, now=timezone.now())
        except AuthenticationRequired as refusal:
            refusal.extra |= {
                "resource_metadata": metadata_url(),
                "next_step": "Obtain a new token for this resource.",
            }
            raise
        request.META.get(ACCEPTED, _nobody_asks)()
        return None, scope

    @override
    def authenticate_header(self, request: Request) -> str:
        return f'Bearer resource_metadata="{metadata_url()}"'


def metadata_url() -> str:
    return f"{settings.PDPP_PUBLIC_URL}{METADATA_PATH}"


def _nobody_asks() -> None:
    """Do nothing: the request did not come through the site."""
