"""Add security headers to every response. Pages extend the policy by what they load."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from pdpp_site import callers
from pdpp_site.wsgi_bridge import Message, Send

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def middleware(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., object]:
    """Add the headers to Django's responses. Outermost, so that error pages have them, too."""

    def add_headers(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        callers.accept_session(request)
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
