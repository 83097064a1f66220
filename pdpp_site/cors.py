"""Let apps that run in a browser sign in (CORS), where the server has a public https address.

On loopback and private addresses no other origin may read anything: any page that the owner visits
could reach the server there. No response allows credentials, so that only a bearer token counts.
`mcp_adapter.streamable_http` allows the origins of PDPP_BROWSER_ORIGINS at /mcp.
"""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from operations.doctor.http_probe import is_private

PATHS = frozenset(
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
HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "authorization, content-type, mcp-protocol-version",
    "Access-Control-Expose-Headers": "www-authenticate, retry-after",
    "Access-Control-Max-Age": "3600",
}


def middleware(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., object]:
    """Add the headers to responses at PATHS, and answer preflight requests there."""

    def add_headers(request: HttpRequest) -> HttpResponseBase:
        url: str = settings.PDPP_PUBLIC_URL
        if request.path not in PATHS or not url.startswith("https://") or is_private(url):
            return get_response(request)
        is_preflight = request.method == "OPTIONS"
        response = HttpResponse(status=204) if is_preflight else get_response(request)
        for name, value in HEADERS.items():
            response.headers[name] = value
        return response

    return add_headers
