"""What every answer says to a browser, whoever made it; pages add what they need to load."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from pdpp_site import callers
from pdpp_site.wsgi_bridge import Message, Send

FENCE = {
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def middleware(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[..., object]:
    """For Django, under any server; outermost, so that no error goes without."""

    def fence(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        callers.accept_session(request)
        for name, value in FENCE.items():
            response.headers.setdefault(name, value)
        return response

    return fence


def fenced(send: Send) -> Send:
    """The same for what never comes to Django."""

    async def fencing(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            given = {name.lower() for name, _ in headers}
            headers += [
                (name.lower().encode(), value.encode())
                for name, value in FENCE.items()
                if name.lower().encode() not in given
            ]
            message = {**message, "headers": headers}
        await send(message)

    return fencing
