"""The name of the route that a path belongs to: one of few, whatever a stranger types.

For the log and for metrics. A path itself may name a stream, a record, a blob or a one-time link.
"""

import re

from django.conf import settings
from django.urls import Resolver404, resolve

from mcp_adapter.streamable_http import EVENT_PATHS
from mcp_adapter.streamable_http import PATHS as MCP_PATHS

OWN = frozenset({"/healthz", "/readyz", "/metrics", *MCP_PATHS, *EVENT_PATHS})
"""What the site answers before Django."""
ELSE = "/…"
_CONVERTER = re.compile(r"<(?:\w+:)?(\w+)>")


def route(path: str) -> str:
    """``/v1/streams/messages/records/m_9`` -> ``/v1/streams/{stream}/records/{record_id}``."""
    if path in OWN:
        return path.rstrip("/")
    if path.startswith(settings.STATIC_URL):
        return f"{settings.STATIC_URL}…"
    try:
        pattern = resolve(path).route
    except Resolver404:
        return ELSE
    # What takes any path, so as to say that there is nothing, is a regular expression.
    plain, *anything = re.split(r"[\^\[(]", pattern, maxsplit=1)
    return "/" + _CONVERTER.sub(r"{\1}", plain) + ("…" if anything else "")
