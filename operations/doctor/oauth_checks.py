"""Registration, the page of the owner, and the token endpoint: all but the owner's own answer."""

import base64
import hashlib
import secrets
from urllib.parse import urlencode, urljoin

from operations.doctor.findings import Side, doubtful, wrong
from operations.doctor.http_probe import is_private, misplaced
from operations.doctor.probe import State, own


def reachable(state: State) -> str:
    """Hosts that call from the internet need an address of the internet."""
    if not state.host.cloud:
        return f"{state.host.client_name} calls from its user's own machine"
    if is_private(state.url):
        raise wrong(
            "not_public",
            Side.CLIENT,
            seen=f"{state.host.client_name} calls from the internet; {state.origin} is only here",
            change="Put the server behind a public https address (a tunnel is enough), or use a host "
            "that runs on this machine: Claude Code, Codex, Gemini CLI.",
        )
    if state.url.startswith("http:"):
        raise wrong(
            "not_encrypted",
            Side.SERVER,
            seen=f"{state.host.client_name} takes https addresses only",
            change="Put a TLS proxy in front and set PDPP_PUBLIC_URL to its https address.",
        )
    return "The address is one of the internet, with TLS"


def registration(state: State) -> str:
    """The host makes itself known: by its own document, or by registering."""
    by_document = state.server.get("client_id_metadata_document_supported") is True
    where = state.server.get("registration_endpoint")
    if where is None:
        if by_document and state.host.metadata_documents:
            return "It takes the host's own document; nobody needs to register"
        raise wrong(
            "no_registration",
            Side.SERVER,
            seen=f"{state.host.client_name} cannot make itself known here",
            change="Turn dynamic registration on, or register the host by hand and enter its client id "
            "there.",
        )
    answer = own(state.asking.post(str(where), state.host.registration()))
    body = answer.json or {}
    if answer.status == 429:
        raise doubtful(
            "registration_limited",
            Side.SERVER,
            seen=f"Too many registrations of late: {answer.in_words}",
            change="Wait as long as Retry-After says; then hosts can register again.",
        )
    if answer.status not in {200, 201} or "client_id" not in body:
        raise wrong(
            "registration_refused",
            Side.SERVER,
            seen=f"Registering as {state.host.client_name} was refused: {answer.in_words}",
            change="The answer says which member it was; a proxy may also have cut the body.",
        )
    state.client_id = str(body["client_id"])
    if body.get("token_endpoint_auth_method", "none") != "none":
        raise wrong(
            "registration_altered",
            Side.SERVER,
            seen="The host asked to have no secret and was given another way",
            change="Answer registrations with the method that was asked for; update the server.",
        )
    return "Registered; a registration that is never used expires"


def owners_page(state: State) -> str:
    """The page where the owner answers, as a browser reaches it."""
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
    where = str(state.server["authorization_endpoint"])
    answer = state.asking.get(f"{where}?{urlencode(query)}", accept="text/html")
    if answer.status in {302, 303}:
        target = urljoin(answer.url, answer.headers.get("location", ""))
        found = misplaced(target, wanted=where, what="the page to sign in")
        if found is not None:
            raise found
        return f"The owner is sent to {target.partition('?')[0]}"
    if answer.status == 200 and answer.is_page:
        return "The owner's page is shown"
    raise wrong(
        "no_owners_page",
        Side.SERVER if answer.status < 500 else Side.PROXY,
        seen=f"The page for the owner got {answer.in_words}",
        change="Open the address of the authorization endpoint in a browser: the page says what it "
        "does not accept.",
    )


def token(state: State) -> str:
    """A code that nobody issued has to be refused in the words of RFC 6749."""
    form = {
        "grant_type": "authorization_code",
        "client_id": state.client_id,
        "code": "doctor",
        "redirect_uri": state.host.redirect_uri,
        "code_verifier": secrets.token_urlsafe(48),
        "resource": state.url,
    }
    answer = own(state.asking.submit(str(state.server["token_endpoint"]), form))
    told = (answer.json or {}).get("error")
    if told == "invalid_grant":
        return "A made-up code is refused as one"
    raise wrong(
        "token_endpoint",
        Side.SERVER if answer.json is not None else Side.PROXY,
        seen=f"A made-up code got {answer.in_words}",
        change="The token endpoint has to take a form by POST, without cookie or CSRF check, and answer "
        "400 invalid_grant; let the proxy pass it through unchanged.",
    )
