"""Write one access log line per request: method, route name, status and time, nothing personal.

Paths are left out because they can contain record ids, blob ids and one-time links.
"""

import contextlib
import logging
import re
import time
from collections.abc import Iterator
from http import HTTPMethod

from django.conf import settings
from django.urls import Resolver404, resolve
from starlette.types import Message, Scope, Send

from mcp_adapter.streamable_http import EVENT_PATHS, MCP_PATHS

SITE_PATHS = frozenset({"/healthz", "/readyz", *MCP_PATHS, *EVENT_PATHS})
"""Paths that the site serves without Django."""
UNKNOWN = "/…"
METHODS = frozenset(HTTPMethod)
_CONVERTER = re.compile(r"<(?:\w+:)?(\w+)>")


def route_name(path: str) -> str:
    """Return a name such as ``/v1/streams/{stream}/records/{record_id}``."""
    if path in SITE_PATHS:
        return path.rstrip("/")
    if path.startswith(settings.STATIC_URL):
        return f"{settings.STATIC_URL}…"
    try:
        pattern = resolve(path).route
    except Resolver404:
        return UNKNOWN
    # Catch-all routes are regular expressions.
    plain, *rest = re.split(r"[\^\[(]", pattern, maxsplit=1)
    return "/" + _CONVERTER.sub(r"{\1}", plain) + ("…" if rest else "")


logger = logging.getLogger("pdpp.access")


@contextlib.contextmanager
def log_request(scope: Scope, send: Send) -> Iterator[Send]:
    """Yield a ``send`` that records the status; log the request after the block."""
    status = 0

    async def recording_send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        await send(message)

    started = time.perf_counter()
    try:
        yield recording_send
    finally:
        milliseconds = (time.perf_counter() - started) * 1000
        route = route_name(scope["path"])
        # The server passes on any method, which may hold anything.
        method = scope["method"] if scope["method"] in METHODS else "other"
        logger.info(
            "%s %s %s %.0f ms",
            method,
            route,
            status or "-",
            milliseconds,
            extra={
                "method": method,
                "route": route,
                "status": status or None,
                "milliseconds": round(milliseconds, 1),
            },
        )
