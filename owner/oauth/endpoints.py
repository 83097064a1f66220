"""``/oauth/token`` and ``/oauth/revoke``: the library judges, one transaction holds it together."""

import base64
import binascii
import json
import secrets
from typing import Any

import orjson
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from evidence import limits
from evidence.access.grant_states import DATA_ACCESS
from evidence.access.oauth import requests
from evidence.access.oauth.tokens import introspected
from evidence.errors import RateLimitExceeded
from owner.oauth import client_metadata
from owner.oauth.responses import refused, said, slowed
from owner.oauth.server import DEVICE_GRANT, GRANTS, core
from owner.oauth.uris import OFFLINE, SCOPE


@csrf_exempt
@sensitive_post_parameters()
@require_POST
def token(request: HttpRequest) -> HttpResponse:
    """RFC 6749, 5. A refusal is stored too: a replayed token ends its family."""
    # The library looks for a handler, finds none and calls it.
    if request.POST.get("grant_type") not in GRANTS:
        return refused(
            "unsupported_grant_type", f"The grant types are {', '.join(sorted(GRANTS))}."
        )
    with transaction.atomic():
        _, _, body, status = core().create_token_response(request)
    answer = json.loads(body)
    if status == 200:
        return said(answer)
    return _refused(request, answer)


@csrf_exempt
@sensitive_post_parameters()
@require_POST
def revoke(request: HttpRequest) -> HttpResponse:
    """RFC 7009: a token of the client's own ends, with all that came of the same sign-in."""
    with transaction.atomic():
        _, _, body, status = core().create_revocation_response(request)
    return said({}) if status == 200 else _refused(request, json.loads(body))


def _refused(request: HttpRequest, answer: dict[str, Any]) -> HttpResponse:
    """400, but for credentials in the header, which are answered in kind (RFC 6749, 5.2)."""
    error = answer.pop("error")
    description = answer.pop("error_description", "")
    tried = error == "invalid_client" and "Authorization" in request.headers
    response = refused(error, description, status=401 if tried else 400, **answer)
    if tried:
        response["WWW-Authenticate"] = 'Basic realm="token"'
    return response


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


DOCUMENTS = ["client_id_metadata_document"]
METHODS = ["none", "client_secret_basic", "client_secret_post"]


@require_safe
def authorization_server(request: HttpRequest) -> JsonResponse:
    """RFC 8414. Every address is under the one public URL, whatever the request came through."""
    response = JsonResponse(document(settings.PDPP_PUBLIC_URL))
    response["Cache-Control"] = "no-store"
    response["Access-Control-Allow-Origin"] = "*"
    return response


def document(issuer: str) -> dict[str, Any]:
    """The whole document."""
    documents: bool = settings.PDPP_CLIENT_DOCUMENTS
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/oauth/authorize",
        "token_endpoint": f"{issuer}/oauth/token",
        "introspection_endpoint": f"{issuer}/introspect",
        "revocation_endpoint": f"{issuer}/oauth/revoke",
        "pushed_authorization_request_endpoint": f"{issuer}/oauth/par",
        "registration_endpoint": f"{issuer}/oauth/register",
        "device_authorization_endpoint": f"{issuer}/oauth/device_authorization",
        "agent_connect_endpoint": f"{issuer}/agent-connect",
        "scopes_supported": [SCOPE, OFFLINE],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [DEVICE_GRANT, "authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": METHODS,
        "revocation_endpoint_auth_methods_supported": METHODS,
        "introspection_endpoint_auth_methods_supported": ["client_secret_basic"],
        "authorization_details_types_supported": [DATA_ACCESS],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": documents,
        "pdpp_registration_modes_supported": ["dynamic", *DOCUMENTS] if documents else ["dynamic"],
        "pdpp_pre_registered_public_clients": [],
        "pdpp_authorization_details_types_supported": [DATA_ACCESS],
        "pdpp_provider_connect_capabilities": ["cli_device_connect", "third_party_client_connect"],
        "pdpp_device_authorization_profiles_supported": [{"profile": "grant_scoped_mcp"}],
    }


@csrf_exempt
@require_POST
def register(request: HttpRequest) -> HttpResponse:
    """201 with the metadata as it was understood. Members that are not known are ignored."""
    if len(request.body) > limits.REGISTRATION_BYTES:
        return refused("invalid_client_metadata", "The client metadata is too large.")
    try:
        introduction = client_metadata.read(_json(request.body))
        row, secret = requests.register(
            introduction, address=request.META.get("REMOTE_ADDR", ""), now=timezone.now()
        )
    except client_metadata.NotAcceptedError as error:
        return refused(error.error, str(error))
    except RateLimitExceeded as refusal:
        return slowed(refusal)
    answer: dict[str, Any] = {
        **introduction.metadata,
        "client_id": row.client_id,
        "client_id_issued_at": int(row.created_at.timestamp()),
        "redirect_uris": row.redirect_uris,
        "grant_types": row.grant_types,
        "response_types": ["code"] if "authorization_code" in row.grant_types else [],
        "token_endpoint_auth_method": row.auth_method,
    }
    if secret is not None:
        answer |= {"client_secret": secret, "client_secret_expires_at": 0}
    return said(answer, status=201)


def _json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
