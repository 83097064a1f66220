"""Map a request path to its route name, for logs and metrics.

There are few route names; a path can contain the name of a stream, record, blob or one-time link.
"""

import re

from django.conf import settings
from django.urls import Resolver404, resolve

from mcp_adapter.streamable_http import EVENT_PATHS, MCP_PATHS

SITE_PATHS = frozenset({"/healthz", "/readyz", "/metrics", *MCP_PATHS, *EVENT_PATHS})
"""Paths that the site serves without Django."""
UNKNOWN = "/…"
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
