"""Token, revocation, introspection, registration and metadata endpoints (OAuth 2.0)."""

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
from django.views.decorators.http import require_safe

from evidence import limits
from evidence.access.grant_states import DATA_ACCESS
from evidence.api.authentication import requested_url
from owner.oauth import clients, requests
from owner.oauth.clients import AUTH_METHODS
from owner.oauth.responses import (
    COLLECT_SCOPE,
    OFFLINE_SCOPE,
    SCOPE,
    RefusalError,
    endpoint,
    error_response,
    json_response,
)
from owner.oauth.server import DEVICE_GRANT, GRANT_TYPES, oauth_backend
from owner.oauth.tokens import introspection_response

INTROSPECTION_USER = "resource-server"


@endpoint
def token(request: HttpRequest) -> HttpResponse:
    """Issue tokens (RFC 6749, 5).

    An error commits too: a replayed refresh token revokes its family.
    """
    # oauthlib fails with TypeError for a grant type that is not registered with its server.
    if request.POST.get("grant_type") not in GRANT_TYPES:
        raise RefusalError(
            f"Supported grant types are: {', '.join(sorted(GRANT_TYPES))}.",
            error="unsupported_grant_type",
        )
    with transaction.atomic():
        _, _, body, status = oauth_backend().create_token_response(request)
    members = json.loads(body)
    return _answer(request, members, status)


@endpoint
def revoke(request: HttpRequest) -> HttpResponse:
    """Revoke a token of the client and all tokens of the same sign-in (RFC 7009)."""
    with transaction.atomic():
        _, _, body, status = oauth_backend().create_revocation_response(request)
    return _answer(request, json.loads(body) if status != 200 else {}, status)


def _answer(request: HttpRequest, members: dict[str, Any], status: int) -> HttpResponse:
    """Raise RefusalError for an error: 400, or 401 for wrong credentials in the header (RFC 6749, 5.2)."""
    if status == 200:
        return json_response(members)
    error, text = members.pop("error"), members.pop("error_description", "")
    used_header = error == "invalid_client" and "Authorization" in request.headers
    raise RefusalError(text, error=error, status=401 if used_header else 400, **members)


@endpoint
def introspect(request: HttpRequest) -> HttpResponse:
    """Introspect a token (RFC 7662) for a resource server in another process.

    Returns 401 to everyone unless ``PDPP_INTROSPECTION_SECRET`` is set.
    """
    if not _is_resource_server(request):
        description = "Wrong credentials of the resource server."
        response = error_response("context.authentication_failed", description, status=401)
        response["WWW-Authenticate"] = 'Basic realm="introspection"'
        return response
    bearer = request.POST.get("token")
    if not bearer:
        raise RefusalError("token is missing.")
    return json_response(
        introspection_response(bearer, origin=settings.PDPP_PUBLIC_URL, now=timezone.now())
    )


def _is_resource_server(request: HttpRequest) -> bool:
    secret = settings.PDPP_INTROSPECTION_SECRET
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    if not secret or scheme.lower() != "basic":
        return False
    try:
        credentials = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return False
    return secrets.compare_digest(credentials, f"{INTROSPECTION_USER}:{secret}".encode())


@require_safe
def authorization_server(request: HttpRequest) -> JsonResponse:
    """Return the metadata (RFC 8414); every URL starts with the public URL."""
    response = JsonResponse(server_metadata(requested_url(request)))
    response["Cache-Control"] = "no-store"
    return response


def server_metadata(issuer: str) -> dict[str, Any]:
    """Return the metadata document of the authorization server."""
    accepts_documents: bool = settings.PDPP_CLIENT_DOCUMENTS
    documents = ["client_id_metadata_document"] if accepts_documents else []
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
        "scopes_supported": [SCOPE, OFFLINE_SCOPE],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [DEVICE_GRANT, "authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": AUTH_METHODS,
        "revocation_endpoint_auth_methods_supported": AUTH_METHODS,
        "introspection_endpoint_auth_methods_supported": ["client_secret_basic"],
        "authorization_details_types_supported": [DATA_ACCESS],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": accepts_documents,
        "pdpp_registration_modes_supported": ["dynamic", *documents],
        "pdpp_pre_registered_public_clients": [],
        "pdpp_authorization_details_types_supported": [DATA_ACCESS],
        "pdpp_provider_connect_capabilities": ["cli_device_connect", "third_party_client_connect"],
        "pdpp_device_authorization_profiles_supported": [
            {"profile": "grant_scoped_mcp"},
            {"profile": "collector", "scope": COLLECT_SCOPE},
        ],
    }


@endpoint
def register(request: HttpRequest) -> HttpResponse:
    """Register a client (RFC 7591) and return the stored metadata; this gives no access by itself."""
    if request.content_type != "application/json":
        raise clients.InvalidClientMetadataError("Send the client metadata as application/json.")
    if len(request.body) > limits.REGISTRATION_BYTES:
        raise clients.InvalidClientMetadataError("The client metadata is too large.")
    metadata = clients.validate_client_metadata(_parse_json(request.body))
    row, secret = requests.register_dynamic_client(
        metadata, address=request.META.get("REMOTE_ADDR", ""), now=timezone.now()
    )
    body: dict[str, Any] = {
        **metadata.metadata,
        "client_id": row.client_id,
        "client_id_issued_at": int(row.created_at.timestamp()),
        "redirect_uris": row.redirect_uris,
        "grant_types": row.grant_types,
        "response_types": ["code"] if "authorization_code" in row.grant_types else [],
        "token_endpoint_auth_method": row.auth_method,
    }
    if secret is not None:
        body |= {"client_secret": secret, "client_secret_expires_at": 0}
    return json_response(body, status=201)


def _parse_json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
