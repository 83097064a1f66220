"""Check OAuth discovery from the 401 challenge to the server metadata (RFC 9728, RFC 8414)."""

import re
import secrets
from typing import Any

from operations.doctor.findings import Side, StepFailedError, failure, warning
from operations.doctor.http_probe import PUBLIC_URL, ProbeResponse, check_origin
from operations.doctor.probe import ProbeState, read_document, require_server_response

_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
WELL_KNOWN = "/.well-known/oauth-protected-resource"


def check_challenge(state: ProbeState) -> str:
    """Check that a request without a token gets a 401 that names the resource metadata."""
    response = require_server_response(state.initialize())
    _reject_cached(response)
    if response.status != 401:
        raise failure(
            "no_challenge",
            Side.PROXY if response.status < 300 else Side.SERVER,
            seen=f"A request without a token returned {response.summary}",
            change="/mcp must return 401. Check that the address is that of the MCP endpoint, and "
            "that the proxy adds no Authorization header.",
        )
    header = response.headers.get("www-authenticate", "")
    state.challenge = dict(_PARAMETER.findall(header))
    state.challenge_request_id = _request_id(response)
    metadata_url = state.challenge.get("resource_metadata")
    if metadata_url is None:
        raise failure(
            "challenge_stripped",
            Side.PROXY,
            seen=f"The 401 has no WWW-Authenticate with resource_metadata ({header or 'none'})",
            change="Let the proxy forward WWW-Authenticate, and let no error page replace a 401 "
            "(nginx: no proxy_intercept_errors, no proxy_hide_header).",
        )
    check_origin(metadata_url, expected=state.url, what="the metadata of the resource")
    return f"401, and the metadata is at {metadata_url}"


def check_bearer(state: ProbeState) -> str:
    """Check that an unknown token is rejected as a token, so that the Authorization header arrives."""
    response = require_server_response(state.initialize(f"pdpp_at_doctor{secrets.token_hex(8)}"))
    is_challenge = response.status == 401 and state.challenge_request_id != ""
    if is_challenge and _request_id(response) == state.challenge_request_id:
        raise _cached_failure("the same response as to the previous request", response)
    _reject_cached(response)
    header = response.headers.get("www-authenticate", "")
    if response.status == 401 and "invalid_token" not in header:
        raise failure(
            "authorization_stripped",
            Side.PROXY,
            seen="A request with a token was treated as one without",
            change="Let the proxy forward the Authorization header (Apache with CGI or WSGI: "
            "CGIPassAuth On or WSGIPassAuthorization On; nginx: proxy_set_header Authorization "
            "$http_authorization).",
        )
    if response.status not in {401, 403}:
        raise failure(
            "made_up_token_works",
            Side.PROXY,
            seen=f"An invalid token returned {response.summary}",
            change="A proxy adds its own token to requests. Remove it immediately.",
        )
    return "An invalid token is rejected"


def check_resource(state: ProbeState) -> str:
    """Check that the resource metadata names this endpoint and an authorization server."""
    url = state.challenge.get("resource_metadata") or f"{state.origin}{WELL_KNOWN}/mcp"
    document = read_document(state.http.get(url), what="the metadata of the resource")
    resource = str(document.get("resource", ""))
    if resource != state.url:
        check_origin(resource, expected=state.url, what="the resource")
        raise failure(
            "resource_mismatch",
            Side.SERVER,
            seen=f"The host uses {state.url}; the document names {resource or 'no resource'}",
            change="Use exactly the address that the document names: hosts reject any other.",
        )
    if not document.get("authorization_servers"):
        raise failure(
            "no_authorization_server",
            Side.SERVER,
            seen="The document names no authorization server",
            change="This server offers no sign-in; update it.",
        )
    state.resource = document
    return f"The resource is {resource}, sign-in at {document['authorization_servers'][0]}"


def check_server(state: ProbeState) -> str:
    """Check that the metadata of the authorization server is complete and names its issuer."""
    issuer = str(state.resource["authorization_servers"][0])
    url = f"{issuer.rstrip('/')}/.well-known/oauth-authorization-server"
    document = read_document(state.http.get(url), what="the metadata of the authorization server")
    if document.get("issuer") != issuer:
        check_origin(str(document.get("issuer", "")), expected=issuer, what="the issuer")
        raise failure(
            "issuer_mismatch",
            Side.SERVER,
            seen=f"The resource names {issuer}, but its metadata names {document.get('issuer')}",
            change=f"Both must be identical: set {PUBLIC_URL} without a slash at the end.",
        )
    _require_complete(document)
    for name, value in document.items():
        if name.endswith("_endpoint"):
            check_origin(str(value), expected=issuer, what=name)
    state.server = document
    return f"{issuer} offers codes with PKCE"


def check_get(state: ProbeState) -> str:
    """Check that GET is rejected like POST or as a method: some hosts start with GET."""
    response = require_server_response(state.http.get(state.url))
    _reject_cached(response)
    if response.status not in {401, 405}:
        raise warning(
            "get_misanswered",
            Side.PROXY,
            seen=f"GET of the endpoint returned {response.summary}",
            change="Let the proxy forward GET to the server, which returns 401 or 405. Codex starts "
            "with GET.",
        )
    return f"GET returns {response.status}"


def _require_complete(document: dict[str, Any]) -> None:
    endpoints = ("authorization_endpoint", "token_endpoint")
    missing = [name for name in endpoints if name not in document]
    if "S256" not in document.get("code_challenge_methods_supported", ()):
        missing.append("code_challenge_methods_supported: S256")
    if missing:
        raise failure(
            "incomplete_metadata",
            Side.SERVER,
            seen=f"The document lacks {', '.join(missing)}",
            change="Hosts require it for sign-in; update the server.",
        )


def _reject_cached(response: ProbeResponse) -> None:
    for name in ("age", "x-cache", "cf-cache-status", "x-cache-status"):
        value = response.headers.get(name, "")
        if (name == "age" and value not in {"", "0"}) or "hit" in value.lower():
            raise _cached_failure(f"{name}: {value}", response)


def _cached_failure(evidence: str, response: ProbeResponse) -> StepFailedError:
    return failure(
        "cached",
        Side.PROXY,
        seen=f"{response.status} came from a cache ({evidence})",
        change="The server's responses are marked no-store and must not be cached. Disable caching "
        "for this server, and clear the cache.",
    )


def _request_id(response: ProbeResponse) -> str:
    error = (response.json or {}).get("error")
    request_id = error.get("request_id") if isinstance(error, dict) else None
    return str(request_id or response.headers.get("request-id", ""))
