"""One line for each request, with nothing personal in it.

No query, no header and not the path but the name of its route: record ids, blob ids and one-time
links are parts of paths, too.
"""

import contextlib
import logging
import time
from collections.abc import Iterator

from starlette.types import Message, Scope, Send

from operations import metrics
from operations.route_names import route
from operations.tracing import Spans

logger = logging.getLogger("pdpp.access")


@contextlib.contextmanager
def noted(scope: Scope, send: Send, *, spans: Spans) -> Iterator[Send]:
    """A ``send`` that remembers the status; the line is written, and the request counted, when the
    block ends. The block is a span."""
    status = 0

    async def noting(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        await send(message)

    with spans.request(scope["headers"]) as answered:
        began = time.perf_counter()
        metrics.RUNNING.inc()
        try:
            yield noting
        finally:
            took = (time.perf_counter() - began) * 1000
            metrics.RUNNING.dec()
            where = route(scope["path"])
            answered(method=scope["method"], route=where, status=status)
            metrics.note(method=scope["method"], route=where, status=status, seconds=took / 1000)
            logger.info(
                "%s %s %s %.0f ms",
                scope["method"],
                where,
                status or "-",
                took,
                extra={
                    "method": scope["method"],
                    "route": where,
                    "status": status or None,
                    "milliseconds": round(took, 1),
                },
            )
