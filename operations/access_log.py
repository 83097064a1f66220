"""Write one access log line per request: method, route name, status and time, nothing personal.

Paths are left out because they can contain record ids, blob ids and one-time links.
"""

import contextlib
import logging
import time
from collections.abc import Iterator

from starlette.types import Message, Scope, Send

from operations import metrics
from operations.route_names import route_name
from operations.tracing import Tracer

logger = logging.getLogger("pdpp.access")


@contextlib.contextmanager
def log_request(scope: Scope, send: Send, *, tracer: Tracer) -> Iterator[Send]:
    """Yield a ``send`` that records the status; log, count and trace the request after the block."""
    status = 0

    async def recording_send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        await send(message)

    with tracer.request(scope["headers"]) as record_response:
        started = time.perf_counter()
        metrics.REQUESTS_RUNNING.inc()
        try:
            yield recording_send
        finally:
            milliseconds = (time.perf_counter() - started) * 1000
            metrics.REQUESTS_RUNNING.dec()
            route = route_name(scope["path"])
            record_response(method=scope["method"], route=route, status=status)
            metrics.record_request(
                method=scope["method"], route=route, status=status, seconds=milliseconds / 1000
            )
            logger.info(
                "%s %s %s %.0f ms",
                scope["method"],
                route,
                status or "-",
                milliseconds,
                extra={
                    "method": scope["method"],
                    "route": route,
                    "status": status or None,
                    "milliseconds": round(milliseconds, 1),
                },
            )
