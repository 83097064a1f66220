"""Check OAuth (RFC 9728, RFC 8414, registration, sign-in page, token endpoint), bodies, jobs and, with a token, the MCP tools."""

import base64
import hashlib
import json
import re
import secrets
from typing import Any
from urllib.parse import urlencode, urljoin

from operations.doctor.http_probe import (
    INITIALIZE,
    PROTOCOL_VERSION,
    PUBLIC_URL,
    ProbeResponse,
    ProbeState,
    Side,
    StepFailedError,
    StepSkippedError,
    body_limit,
    check_origin,
    failure,
    is_private,
    read_document,
    require_server_response,
    warning,
)


def check_address(state: ProbeState) -> str:
    """Check that a host in the cloud can reach the address."""
    if not state.host.cloud:
        return f"{state.host.client_name} connects from its user's machine"
    if is_private(state.url):
        raise failure(
            "not_public",
            Side.CLIENT,
            seen=f"{state.host.client_name} connects from the internet; {state.origin} is private",
            change="Put the server behind a public https address (a tunnel is enough), or use a host "
            "that runs on this machine: Claude Code, Codex, Gemini CLI.",
        )
    if state.url.startswith("http:"):
        raise failure(
            "not_encrypted",
            Side.SERVER,
            seen=f"{state.host.client_name} accepts only https addresses",
            change="Put a TLS proxy in front and set PDPP_PUBLIC_URL to its https address.",
        )
    return "The address is public and uses TLS"


def check_registration(state: ProbeState) -> str:
    """Register the host (RFC 7591), unless it identifies itself by a metadata document."""
    supports_documents = state.server.get("client_id_metadata_document_supported") is True
    endpoint = state.server.get("registration_endpoint")
    if endpoint is None:
        if supports_documents and state.host.metadata_documents:
            return "The server reads the host's metadata document; no registration is needed"
        raise failure(
            "no_registration",
            Side.SERVER,
            seen=f"{state.host.client_name} cannot register here",
            change="Enable dynamic registration, or register the host by hand and enter its client "
            "id there.",
        )
    response = require_server_response(state.http.post(str(endpoint), state.host.registration()))
    body = response.json or {}
    if response.status == 429:
        raise warning(
            "registration_limited",
            Side.SERVER,
            seen=f"Too many recent registrations: {response.summary}",
            change="Wait as long as Retry-After says; then hosts can register again.",
        )
    if response.status not in {200, 201} or "client_id" not in body:
        raise failure(
            "registration_refused",
            Side.SERVER,
            seen=f"Registration as {state.host.client_name} was rejected: {response.summary}",
            change="The response names the invalid member. A proxy may also have cut the body.",
        )
    state.client_id = str(body["client_id"])
    if body.get("token_endpoint_auth_method", "none") != "none":
        raise failure(
            "registration_altered",
            Side.SERVER,
            seen="The host registered without a secret and got another authentication method",
            change="Register clients with the requested method; update the server.",
        )
    return "Registered; an unused registration expires"


def check_consent_page(state: ProbeState) -> str:
    """Check that a browser reaches the consent page or is sent to sign in."""
    verifier = secrets.token_urlsafe(48)
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
    query = {
        "response_type": "code",
        "client_id": state.client_id,
        "redirect_uri": state.host.redirect_uri,
        "code_challenge": digest.decode().rstrip("="),
        "code_challenge_method": "S256",
        "state": secrets.token_urlsafe(16),
        "scope": "pdpp:read",
        "resource": state.url,
    }
    endpoint = str(state.server["authorization_endpoint"])
    response = state.http.get(f"{endpoint}?{urlencode(query)}", accept="text/html")
    if response.status in {302, 303}:
        target = urljoin(response.url, response.headers.get("location", ""))
        check_origin(target, expected=endpoint, what="the sign-in page")
        return f"The owner is sent to {target.partition('?')[0]}"
    if response.status == 200 and response.is_html:
        return "The consent page opens"
    raise failure(
        "no_owners_page",
        Side.SERVER if response.status < 500 else Side.PROXY,
        seen=f"The consent page returned {response.summary}",
        change="Open the authorization endpoint in a browser: the page shows what it rejects.",
    )


def check_token_endpoint(state: ProbeState) -> str:
    """Check that an unknown code is rejected with invalid_grant (RFC 6749)."""
    form = {
        "grant_type": "authorization_code",
        "client_id": state.client_id,
        "code": "doctor",
        "redirect_uri": state.host.redirect_uri,
        "code_verifier": secrets.token_urlsafe(48),
        "resource": state.url,
    }
    response = require_server_response(
        state.http.post_form(str(state.server["token_endpoint"]), form)
    )
    if (response.json or {}).get("error") == "invalid_grant":
        return "An invalid code is rejected"
    raise failure(
        "token_endpoint",
        Side.SERVER if response.json is not None else Side.PROXY,
        seen=f"An invalid code returned {response.summary}",
        change="The token endpoint must accept a form by POST, without cookie or CSRF check, and "
        "return 400 invalid_grant. Let the proxy forward it unchanged.",
    )


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


EXPECTED_TOOLS = {"schema", "query_records", "aggregate", "search", "fetch", "read_record_field"}
COMMON_WORDS = "the OR and OR for OR with OR und OR die OR de OR la OR 的 OR の"
"""A query that matches almost any collection of records."""
BODY_CHARS = 200_000
"""Larger than any tool call, and below the server's limit of one megabyte."""


def check_large_body(state: ProbeState) -> str:
    """Check that no proxy rejects a body of ordinary size."""
    params = {**INITIALIZE["params"], "padding": "x" * BODY_CHARS}
    response = state.http.post(state.url, {**INITIALIZE, "params": params})
    if response.status == 413:
        raise body_limit(response)
    require_server_response(response)
    return f"A body of {BODY_CHARS // 1000} kB arrives"


def check_response_body(state: ProbeState) -> str:
    """Check that no proxy compresses or replaces bodies."""
    response = require_server_response(state.initialize())
    encoding = response.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise warning(
            "compressed",
            Side.PROXY,
            seen=f"Responses are compressed ({encoding}) without being requested",
            change="Compress only on request, and nothing under /mcp and /v1.",
        )
    if response.status == 401 and response.json is None:
        raise warning(
            "body_replaced",
            Side.PROXY,
            seen=f"The body of the 401 is not the server's: {response.summary}",
            change="Let the proxy forward the bodies of errors: hosts show them to their users.",
        )
    return "Bodies arrive unchanged"


def check_background_jobs(state: ProbeState) -> str:
    """Check that background jobs run, as /readyz reports it. Proxies may hide /readyz."""
    try:
        readiness = state.http.get(f"{state.origin}/readyz").json or {}
    except StepFailedError:
        readiness = {}
    if readiness.get("status") != "ready":
        raise StepSkippedError(
            "/readyz does not answer from here; run the doctor on the server's own machine."
        )
    if "warning" in readiness:
        raise warning(
            "work_waits",
            Side.SERVER,
            seen=str(readiness["warning"]),
            change="Keep one server running without PDPP_BACKGROUND=false (manage.py run). If one "
            "runs, its log shows what fails.",
        )
    return "Background jobs are running"


def check_tools(state: ProbeState) -> str:
    """Check that tools/list contains all tools."""
    tools = {str(tool.get("name")) for tool in _call(state, "tools/list", {}).get("tools", ())}
    if missing := sorted(EXPECTED_TOOLS - tools):
        raise failure(
            "tools_missing",
            Side.SERVER,
            seen=f"tools/list lacks {', '.join(missing)}",
            change="Check that this is the MCP endpoint of this server, not of another one.",
        )
    return f"{len(tools)} tools"


def check_search(state: ProbeState) -> str:
    """Search all records that the grant covers."""
    results = _call_tool(state, "search", q=COMMON_WORDS, limit=1).get("results") or ()
    state.found_id = str(results[0].get("id", "")) if results else ""
    return "The search returned a result" if state.found_id else "The search returned no results"


def check_fetch(state: ProbeState) -> str:
    """Fetch the first search result as a document."""
    if not state.found_id:
        return "There is no search result to fetch"
    document = _call_tool(state, "fetch", id=state.found_id)
    if set(document) != {"id", "title", "text", "url", "metadata"}:
        raise failure(
            "fetch_altered",
            Side.SERVER,
            seen="The document does not have the five members that hosts expect",
            change="Update the server.",
        )
    return "The document is complete"


def _call_tool(state: ProbeState, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the JSON in the text of a tool result. Errors never show its content."""
    result = _call(state, "tools/call", {"name": name, "arguments": arguments})
    text = next((part.get("text", "") for part in result.get("content", ())), "")
    try:
        body = json.loads(text)
    except ValueError:
        body = {}
    if result.get("isError") or not isinstance(body, dict):
        error = body.get("error", {}) if isinstance(body, dict) else {}
        raise failure(
            "tool_failed",
            Side.SERVER,
            seen=f"{name} failed: {error.get('code')}: {error.get('message')}",
            change=str(error.get("next_step") or "Check the log of the server."),
        )
    return body


def _call(state: ProbeState, method: str, params: dict[str, Any]) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 2, "method": method, "params": params}
    headers = {
        "authorization": f"Bearer {state.bearer}",
        "mcp-protocol-version": PROTOCOL_VERSION,
    }
    response = require_server_response(state.http.post(state.url, message, **headers))
    if response.status in {401, 403}:
        raise failure(
            "token_refused",
            Side.CLIENT,
            seen=f"The token is rejected: {response.summary}",
            change="It has expired, was revoked, or is for another resource; connect the host again.",
        )
    result = (response.json or {}).get("result")
    if response.status != 200 or not isinstance(result, dict):
        raise failure(
            "call_failed",
            Side.SERVER,
            seen=f"{method} returned {response.summary}",
            change="Check the log of the server. A proxy may also drop the header "
            "MCP-Protocol-Version.",
        )
    return result
