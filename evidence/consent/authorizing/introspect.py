"""``/introspect``: a resource server that is not this process asks about a bearer (RFC 7662)."""

import base64
import binascii
import secrets

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from evidence.access.introspecting import introspected
from evidence.consent.authorizing.answers import refused, said

USER = "resource-server"


@csrf_exempt
@sensitive_post_parameters()
@require_POST
def introspect(request: HttpRequest) -> HttpResponse:
    """Nobody may ask unless ``PDPP_INTROSPECTION_SECRET`` is set."""
    if not _proves_itself(request):
        description = "The credentials of the resource server are wrong."
        response = refused("context.authentication_failed", description, status=401)
        response["WWW-Authenticate"] = 'Basic realm="introspection"'
        return response
    bearer = request.POST.get("token")
    if not bearer:
        return refused("invalid_request", "The token is missing.")
    return said(introspected(bearer, origin=settings.PDPP_PUBLIC_URL, now=timezone.now()))


def _proves_itself(request: HttpRequest) -> bool:
    secret = settings.PDPP_INTROSPECTION_SECRET
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    if not secret or scheme.lower() != "basic":
        return False
    try:
        sent = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return False
    return secrets.compare_digest(sent, f"{USER}:{secret}".encode())
