"""From the address of the endpoint to where one signs in (RFC 9728, RFC 8414)."""

import re
import secrets
from typing import Any

from operations.doctor.findings import Side, Wrong, doubtful, wrong
from operations.doctor.http_probe import PUBLIC, Answer, misplaced
from operations.doctor.probe import State, document, own

_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
WELL_KNOWN = "/.well-known/oauth-protected-resource"


def challenge(state: State) -> str:
    """A host without a token has to be told where to get one."""
    answer = own(state.hello())
    _never_cached(answer)
    if answer.status != 401:
        raise wrong(
            "no_challenge",
            Side.PROXY if answer.status < 300 else Side.SERVER,
            seen=f"A request without a token got {answer.in_words}",
            change="/mcp has to answer 401 to it. Check that the address is that of the MCP endpoint, "
            "and that the proxy adds no Authorization of its own.",
        )
    told = answer.headers.get("www-authenticate", "")
    state.challenge = dict(_PARAMETER.findall(told))
    state.challenged_as = _request_id(answer)
    where = state.challenge.get("resource_metadata")
    if where is None:
        raise wrong(
            "challenge_stripped",
            Side.PROXY,
            seen=f"The 401 has no WWW-Authenticate that says where to sign in ({told or 'none'})",
            change="Let the proxy pass WWW-Authenticate through, and no error page replace a 401 "
            "(nginx: no proxy_intercept_errors, no proxy_hide_header).",
        )
    _or_raise(misplaced(where, wanted=state.url, what="the metadata of the resource"))
    return f"401, and the metadata is at {where}"


def bearer_arrives(state: State) -> str:
    """A token that nobody issued must be refused as a token, not as a request without one."""
    answer = own(state.hello(f"pdpp_at_doctor{secrets.token_hex(8)}"))
    if answer.status == 401 and state.challenged_as and _request_id(answer) == state.challenged_as:
        raise _cached("the very answer of the request before", answer)
    _never_cached(answer)
    told = answer.headers.get("www-authenticate", "")
    if answer.status == 401 and "invalid_token" not in told:
        raise wrong(
            "authorization_stripped",
            Side.PROXY,
            seen="A request with a token was answered as if it had none",
            change="Let the proxy pass the Authorization header on (Apache with CGI or WSGI: "
            "CGIPassAuth On or WSGIPassAuthorization On; nginx: proxy_set_header Authorization "
            "$http_authorization).",
        )
    if answer.status not in {401, 403}:
        raise wrong(
            "made_up_token_works",
            Side.PROXY,
            seen=f"A token that nobody issued got {answer.in_words}",
            change="Something in front adds a token of its own; take that away at once.",
        )
    return "A made-up token is refused as one"


def metadata(state: State) -> str:
    """The document that names the resource and its authorization server."""
    where = state.challenge.get("resource_metadata") or f"{state.origin}{WELL_KNOWN}/mcp"
    answer = state.asking.get(where)
    found = document(answer, what="the metadata of the resource")
    resource = str(found.get("resource", ""))
    if resource != state.url:
        _or_raise(misplaced(resource, wanted=state.url, what="its own name"))
        raise wrong(
            "resource_mismatch",
            Side.SERVER,
            seen=f"The host was given {state.url}; the document is about {resource or 'nothing'}",
            change="Give hosts the address that the document names, to the letter: they refuse any "
            "other.",
        )
    if not found.get("authorization_servers"):
        raise wrong(
            "no_authorization_server",
            Side.SERVER,
            seen="The document names no authorization server",
            change="This server offers no sign-in; update it.",
        )
    state.resource = found
    return f"The resource is {resource}, sign-in at {found['authorization_servers'][0]}"


def authorization_server(state: State) -> str:
    """The document of the authorization server, which has to be about itself."""
    issuer = str(state.resource["authorization_servers"][0])
    where = f"{issuer.rstrip('/')}/.well-known/oauth-authorization-server"
    found = document(state.asking.get(where), what="the metadata of the authorization server")
    if found.get("issuer") != issuer:
        _or_raise(misplaced(str(found.get("issuer", "")), wanted=issuer, what="the issuer"))
        raise wrong(
            "issuer_mismatch",
            Side.SERVER,
            seen=f"Announced as {issuer}, it calls itself {found.get('issuer')}",
            change=f"Both have to be the same to the letter: set {PUBLIC} without a slash at the end.",
        )
    _complete(found)
    for name, value in found.items():
        if name.endswith("_endpoint"):
            _or_raise(misplaced(str(value), wanted=issuer, what=name))
    state.server = found
    return f"{issuer} offers codes with PKCE"


def _complete(found: dict[str, Any]) -> None:
    missing = [name for name in ("authorization_endpoint", "token_endpoint") if name not in found]
    if "S256" not in found.get("code_challenge_methods_supported", ()):
        missing.append("code_challenge_methods_supported: S256")
    if missing:
        raise wrong(
            "incomplete_metadata",
            Side.SERVER,
            seen=f"The document lacks {', '.join(missing)}",
            change="Hosts refuse to sign in without it; update the server.",
        )


def _never_cached(answer: Answer) -> None:
    for name in ("age", "x-cache", "cf-cache-status", "x-cache-status"):
        told = answer.headers.get(name, "")
        if (name == "age" and told not in {"", "0"}) or "hit" in told.lower():
            raise _cached(f"{name}: {told}", answer)


def _cached(sign: str, answer: Answer) -> Wrong:
    return wrong(
        "cached",
        Side.PROXY,
        seen=f"{answer.status} came out of a cache ({sign})",
        change="Nothing of this server may be cached on the way: it says no-store. Turn caching off "
        "for it, and clear the cache.",
    )


def _request_id(answer: Answer) -> str:
    body = answer.json or {}
    error = body.get("error")
    told = error.get("request_id") if isinstance(error, dict) else None
    return str(told or answer.headers.get("request-id", ""))


def _or_raise(found: Wrong | None) -> None:
    if found is not None:
        raise found


def other_methods(state: State) -> str:
    """Some hosts begin with a GET; it is answered like a POST, or refused as a method."""
    answer = own(state.asking.get(state.url))
    _never_cached(answer)
    if answer.status not in {401, 405}:
        raise doubtful(
            "get_misanswered",
            Side.PROXY,
            seen=f"GET of the endpoint got {answer.in_words}",
            change="Let the proxy pass GET to the server, which says 401 or 405; Codex begins with it.",
        )
    return f"GET is answered with {answer.status}"
