"""What the authorization server says of itself (RFC 8414, contract 1.4)."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from evidence.access.rights import DATA_ACCESS
from evidence.consent.authorizing.resources import OFFLINE, SCOPE
from evidence.consent.authorizing.server import DEVICE_GRANT

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
