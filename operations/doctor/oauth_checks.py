"""Check registration, the sign-in page and the token endpoint."""

import base64
import hashlib
import secrets
from urllib.parse import urlencode, urljoin

from operations.doctor.findings import Side, failure, warning
from operations.doctor.http_probe import check_origin, is_private
from operations.doctor.probe import ProbeState, require_server_response


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
