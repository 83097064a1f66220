"""Redirect URIs, resource indicators (RFC 8707), JSON errors (RFC 6749), message pages and redirects."""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from evidence.api.authentication import public_urls
from evidence.errors import RateLimitExceeded
from owner.grants.grantable_sources import LOOPBACK_HOSTS, Resource
from owner.permissions import with_security_headers

CLIENT_CHALLENGE = 'Basic realm="token"'
DESCRIPTIONS = {
    "invalid_client": "Unknown client or wrong credentials.",
    "invalid_grant": "The code or token is unknown, has expired, was used, or is not this client's.",
    "invalid_request": "A parameter is missing, repeated or invalid.",
    "unauthorized_client": "The client is not registered for this grant type.",
}
NO_STORE_HEADERS = {"Cache-Control": "no-store", "Pragma": "no-cache"}


def json_response(body: Mapping[str, Any], *, status: int = 200) -> JsonResponse:
    """Return an uncacheable JSON response."""
    return JsonResponse(dict(body), status=status, headers=NO_STORE_HEADERS)


def error_response(
    error: str, description: str, *, status: int = 400, **members: Any
) -> JsonResponse:
    """Return an RFC 6749 error with a request id; `members` are added to the body."""
    request_id = f"req_{secrets.token_hex(10)}"
    text = description or default_description(error)
    body = {"error": error, "error_description": text, **members, "request_id": request_id}
    response = json_response(body, status=status)
    response["Request-Id"] = response["X-Request-Id"] = request_id
    return response


def default_description(error: str) -> str:
    """Return the description of an error that the library does not describe."""
    return DESCRIPTIONS.get(error, f"The request was refused: {error.replace('_', ' ')}.")


class RefusalError(Exception):
    """A request that gets an error for an answer; the message is its description."""

    def __init__(
        self, message: str, *, error: str = "invalid_request", status: int = 400, **members: Any
    ) -> None:
        super().__init__(message)
        self.error, self.status, self.members = error, status, members


class InvalidClientError(RefusalError):
    """The client is not known: 400, or 401 for wrong credentials in a header (RFC 6749, 5.2)."""

    def __init__(self, *, used_header: bool) -> None:
        status = 401 if used_header else 400
        super().__init__(DESCRIPTIONS["invalid_client"], error="invalid_client", status=status)


def required_resource(indicators: Sequence[str], *, default: Resource = "/mcp") -> Resource:
    """Return the resource that all indicators name. Raises RefusalError for others."""
    resource = single_resource(indicators, default=default)
    if resource is None:
        raise RefusalError("resource must name a resource of this server.", error="invalid_target")
    return resource


def endpoint(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Let clients POST to a view without a session, and answer its refusals as JSON."""

    @csrf_exempt
    @sensitive_post_parameters()
    @require_POST
    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except RefusalError as refusal:
            response = error_response(
                refusal.error, str(refusal), status=refusal.status, **refusal.members
            )
            if refusal.error == "invalid_client" and refusal.status == 401:
                response["WWW-Authenticate"] = CLIENT_CHALLENGE
        except RateLimitExceeded as error:
            response = error_response("slow_down", error.message, status=429)
            response["Retry-After"] = str(error.extra["retry_after"])
        return response

    return inner


@with_security_headers
def message_page(request: HttpRequest, title: str, text: str, *, status: int) -> HttpResponse:
    """Render a page with one message."""
    context = {"title": title, "text": text}
    return render(request, "owner/oauth/message.html", context, status=status)


def redirect_to_client(location: str) -> HttpResponse:
    """Return a redirect to any scheme; HttpResponseRedirect refuses an app's private scheme."""
    return HttpResponse(status=302, headers={"Location": location, **NO_STORE_HEADERS})


def allow_form_redirect(response: HttpResponse, redirect_uri: str) -> HttpResponse:
    """Let the page's form redirect to the client.

    Browsers apply form-action also to the redirects that follow a form submission.
    """
    policy = response.headers.get("Content-Security-Policy", "")
    allowed = f"form-action 'self' {form_action_source(redirect_uri)}"
    response["Content-Security-Policy"] = policy.replace("form-action 'self'", allowed)
    return response


FORBIDDEN_SCHEMES = frozenset((
    "about", "blob", "data", "file", "filesystem", "ftp", "javascript", "vbscript", "view-source",
    "ws", "wss",
))  # fmt: skip
"""Schemes that a browser handles itself; other private schemes belong to apps (RFC 8252)."""
SCOPE = "pdpp:read"
COLLECT_SCOPE = "pdpp:collect"
"""Scope of collectors, for the device flow alone. It is not among `scopes_supported`, because MCP hosts
ask for all of those."""
OFFLINE_SCOPE = "offline_access"


def is_unambiguous(uri: str) -> bool:
    """Return whether every parser splits `uri` in the same way."""
    if not uri.isascii() or not uri.isprintable() or set(uri) & set("\\<>\"'` {}|^#"):
        return False
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.scheme) and "@" not in parts.netloc


def is_registrable(uri: str) -> bool:
    """Return whether a client may register `uri`: https, http on loopback, or a private scheme.

    Hosts with wildcards are refused.
    """
    if not is_unambiguous(uri):
        return False
    parts = urlsplit(uri)
    if set(parts.netloc) & set("*%"):
        return False
    match parts.scheme:
        case "https":
            return bool(parts.hostname)
        case "http":
            return parts.hostname in LOOPBACK_HOSTS
        case scheme:
            return scheme not in FORBIDDEN_SCHEMES


LOOPBACK_ADDRESS = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\])):[0-9]+(?=[/?]|$)")


def is_registered(uri: str, registered: Sequence[str]) -> bool:
    """Return whether `uri` equals a registered one, but for the port of an http address on loopback.

    Apps on the owner's computer listen on a port that is free at the time (RFC 8252, 7.3).
    """
    known = {_without_loopback_port(each) for each in registered}
    return is_unambiguous(uri) and _without_loopback_port(uri) in known


def _without_loopback_port(uri: str) -> str:
    match = LOOPBACK_ADDRESS.match(uri)
    return uri if match is None else match[1] + uri[match.end() :]


def display_host(uri: str) -> str:
    """Return the host and port of a redirect URI (443 is left out), or its private scheme with a colon."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return f"{parts.scheme}:"
    host = parts.hostname or ""
    name = f"[{host}]" if ":" in host else host
    port = parts.port or (80 if parts.scheme == "http" else 443)
    return name if (parts.scheme, port) == ("https", 443) else f"{name}:{port}"


def form_action_source(uri: str) -> str:
    """Return the Content-Security-Policy source that allows a form to redirect to `uri`.

    A policy cannot name IPv6 addresses or hosts of private schemes; the source is then the scheme.
    """
    parts = urlsplit(uri)
    has_origin = parts.scheme in ("http", "https") and "[" not in parts.netloc
    return f"{parts.scheme}://{parts.netloc}" if has_origin else f"{parts.scheme}:"


def parse_resource(indicator: str) -> Resource | None:
    """Return the resource of an indicator with or without a final slash, or None if unknown."""
    try:
        parts = urlsplit(indicator.removesuffix("/"))
    except ValueError:
        return None
    origin = parts._replace(netloc=parts.netloc.lower(), path="").geturl()
    if origin not in public_urls():
        return None
    match parts.path:
        case "/mcp" | "/mcp/events":
            return parts.path
        case "" | "/v1":
            return "/v1"
        case _:
            return None


def single_resource(indicators: Sequence[str], *, default: Resource) -> Resource | None:
    """Return the resource that all indicators name, or None if one is unknown or two differ.

    A token is valid for one resource only.
    """
    resources = {parse_resource(indicator) for indicator in indicators if indicator}
    if not resources:
        return default
    return resources.pop() if len(resources) == 1 else None


def stored_resource(resource: str) -> Resource:
    """Narrow a stored resource to the Resource type."""
    match resource:
        case "/v1" | "/mcp/events":
            return resource
        case _:
            return "/mcp"
