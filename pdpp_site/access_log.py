"""One line for each request, with nothing personal in it.

No query, no header and no more of the path than the route: record ids, blob ids and one-time links
are parts of paths, too.
"""

import contextlib
import logging
import time
from collections.abc import Iterator

from pdpp_site.wsgi_bridge import Message, Scope, Send

logger = logging.getLogger("pdpp.access")

# How many segments of a path name the route; what follows names somebody's record.
ROUTE_SEGMENTS = {"v1": 2, "admin": 3, ".well-known": 3}
STREAM_ROUTE_SEGMENTS = 4


@contextlib.contextmanager
def noted(scope: Scope, send: Send) -> Iterator[Send]:
    """A ``send`` that remembers the status; the line is written when the block ends."""
    began = time.perf_counter()
    status = 0

    async def noting(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        await send(message)

    try:
        yield noting
    finally:
        took = (time.perf_counter() - began) * 1000
        logger.info("%s %s %s %.0f ms", scope["method"], route(scope["path"]), status or "-", took)


def route(path: str) -> str:
    """``/v1/streams/messages/records/m_9`` -> ``/v1/streams/messages/records/…``."""
    segments = path.strip("/").split("/")
    if segments[:2] == ["v1", "streams"]:
        most = STREAM_ROUTE_SEGMENTS
    else:
        most = ROUTE_SEGMENTS.get(segments[0], 1)
    shown = "/".join(segments[:most])
    # What a stranger types as a path may hold anything, line breaks included.
    plain = "".join(char if char.isprintable() else "?" for char in shown)[:120]
    return f"/{plain}/…" if len(segments) > most else f"/{plain}"
