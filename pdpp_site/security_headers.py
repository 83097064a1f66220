"""Add security headers to every response, and CORS headers where apps in a browser sign in.

Pages extend the policy by what they load.
"""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from operations.doctor.http_probe import is_private
from pdpp_site import fair_queue
from pdpp_site.wsgi_bridge import Message, Send

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "private, no-store",  # but for static files and public documents
}


def middleware(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., object]:
    """Add the headers to Django's responses. Outermost, so that error pages have them, too."""

    def add_headers(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        fair_queue.accept_session(request)
        for name, value in SECURITY_HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return add_headers


def add_security_headers(send: Send) -> Send:
    """Return a `send` that adds the headers to responses outside Django."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            headers += [
                (name.lower().encode(), value.encode())
                for name, value in SECURITY_HEADERS.items()
                if name.lower().encode() not in present
            ]
            message = {**message, "headers": headers}
        await send(message)

    return send_with_headers


CORS_PATHS = frozenset(
    {
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource/mcp/events",
        "/oauth/register",
        "/oauth/token",
        "/oauth/revoke",
    }
)
CORS_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "authorization, content-type, mcp-protocol-version",
    "Access-Control-Expose-Headers": "www-authenticate, retry-after",
    "Access-Control-Max-Age": "3600",
}


REGISTERING_PATHS = frozenset(
    {"/oauth/register", "/register", "/oauth/device_authorization", "/oauth/par", "/agent-connect"}
)
"""Where anybody may register an app or ask for access. A form of any page can reach them."""


def allow_browser_apps(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[..., object]:
    """Add the CORS headers at CORS_PATHS, if the server has a public https address.

    On loopback and private addresses no other origin may read anything, nor register apps until
    the limit keeps out others: any page that the owner visits could reach the server there. No
    response allows credentials, so that only a bearer token counts. `mcp_adapter.streamable_http` allows the origins of PDPP_BROWSER_ORIGINS at /mcp.
    """

    def add_headers(request: HttpRequest) -> HttpResponseBase:
        if request.path not in CORS_PATHS | REGISTERING_PATHS:
            return get_response(request)
        url: str = settings.PDPP_PUBLIC_URL
        if not url.startswith("https://") or is_private(url):
            origin = request.headers.get("Origin")
            is_foreign = origin is not None and origin not in settings.CSRF_TRUSTED_ORIGINS
            if is_foreign and request.method == "POST" and request.path in REGISTERING_PATHS:
                return HttpResponse(status=403)
            return get_response(request)
        if request.path not in CORS_PATHS:
            return get_response(request)
        is_preflight = request.method == "OPTIONS"
        response = HttpResponse(status=204) if is_preflight else get_response(request)
        for name, value in CORS_HEADERS.items():
            response.headers[name] = value
        return response

    return add_headers
