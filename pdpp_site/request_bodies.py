"""Read request bodies within the limits of their routes and within a deadline.

A request may send 64 KiB. A few routes take more, and only from a caller whose credential was
checked before the first byte of the body is read.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO

from evidence import limits
from evidence.api.views.collectors import STATE_BYTES
from evidence.api.views.connectors import DECLARATION_BYTES
from evidence.errors import InvalidRequest, Refusal, ResourceLimit
from pdpp_site.credentials import refuse_without_owner_session, refuse_without_owner_token
from pdpp_site.wsgi_bridge import DisconnectedError, Message, Receive, RequestBody, Scope

SMALL_BYTES = 64 * 1024
MCP_BYTES = 1024 * 1024
OWNER_FORM_BYTES = 2 * 1024 * 1024
"""The grant form sends a box per field: 10,000 boxes, the most that Django takes, are about 400 KB."""
IN_MEMORY_BYTES = 1024 * 1024
LARGE_BODIES = 8
"""Bodies over SMALL_BYTES that are read at once. Each takes at most INGEST_MAX_BYTES of disk."""

GRACE_SECONDS = 10.0
LEAST_BYTES_PER_SECOND = 4096
"""A body must keep this average rate, after GRACE_SECONDS."""
LONGEST_PAUSE_SECONDS = 30.0

Check = Callable[[Scope], Refusal | None]


@dataclass(frozen=True, slots=True)
class LargeRoute:
    """A path prefix that takes more than SMALL_BYTES from a caller that ``check`` accepts."""

    prefix: str
    most: int
    check: Check


# The first matching prefix counts.
LARGE_ROUTES = (
    LargeRoute("/v1/ingest/", limits.INGEST_MAX_BYTES, refuse_without_owner_token),
    LargeRoute("/v1/blobs", limits.BLOB_MAX_BYTES, refuse_without_owner_token),
    LargeRoute("/v1/state/", STATE_BYTES, refuse_without_owner_token),
    LargeRoute("/v1/connectors", DECLARATION_BYTES, refuse_without_owner_token),
    LargeRoute("/connectors", DECLARATION_BYTES, refuse_without_owner_token),
    LargeRoute("/admin/evidence/importrun/", limits.INGEST_MAX_BYTES, refuse_without_owner_session),
    LargeRoute("/admin/", OWNER_FORM_BYTES, refuse_without_owner_session),
    LargeRoute("/connected/", OWNER_FORM_BYTES, refuse_without_owner_session),
    LargeRoute("/oauth/authorize", OWNER_FORM_BYTES, refuse_without_owner_session),
    LargeRoute("/authorize", OWNER_FORM_BYTES, refuse_without_owner_session),
    LargeRoute("/device", OWNER_FORM_BYTES, refuse_without_owner_session),
)


class RequestBodies:
    """Reads the bodies of the requests that Django answers."""

    def __init__(self, routes: Sequence[LargeRoute] = LARGE_ROUTES) -> None:
        self._routes = routes
        self._large = asyncio.Semaphore(LARGE_BODIES)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="credentials")

    @asynccontextmanager
    async def read(self, scope: Scope, receive: Receive) -> AsyncIterator[RequestBody]:
        """Yield the complete body.

        Raises ``ResourceLimit`` for a body over the limit of its route, ``InvalidRequest`` for one
        that comes too slowly, what the check of a large route refuses, and ``DisconnectedError``.
        """
        route = self._large_route(scope["path"]) if may_exceed(scope, SMALL_BYTES) else None
        if route is None:
            with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
                yield await _read(scope, receive, into=file, limit=SMALL_BYTES)
            return
        if may_exceed(scope, route.most, unless_declared=False):
            raise _too_large(route.most)
        await self._check(route.check, scope)
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
            async with self._large:
                body = await _read(scope, receive, into=file, limit=route.most)
            yield body

    def _large_route(self, path: str) -> LargeRoute | None:
        return next((route for route in self._routes if path.startswith(route.prefix)), None)

    async def _check(self, check: Check, scope: Scope) -> None:
        loop = asyncio.get_running_loop()
        refusal = await loop.run_in_executor(self._threads, check, scope)
        if refusal is not None:
            raise refusal

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def may_exceed(scope: Scope, limit: int, *, unless_declared: bool = True) -> bool:
    """Return whether the headers announce a body over ``limit`` or, by default, of unknown length."""
    headers = dict(scope["headers"])
    declared = headers.get(b"content-length", b"")
    if declared.isdigit():
        return int(declared) > limit
    return unless_declared and b"transfer-encoding" in headers


def bounded(scope: Scope, receive: Receive, *, limit: int) -> Receive:
    """Return a ``receive`` that enforces ``limit`` and the least rate until the body is complete.

    It raises ``ResourceLimit``, ``InvalidRequest`` and, for a client that leaves in the middle of
    its body, ``DisconnectedError``.
    """
    clock = asyncio.get_running_loop().time
    length, patience, complete = 0, GRACE_SECONDS, False

    async def receive_in_time() -> Message:
        nonlocal length, patience, complete
        if complete:
            return await receive()
        if may_exceed(scope, limit, unless_declared=False):
            raise _too_large(limit)
        began = clock()
        try:
            message = await asyncio.wait_for(receive(), max(patience, 0))
        except TimeoutError:
            raise InvalidRequest(message="The request body did not arrive in time.") from None
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        size = len(message.get("body", b""))
        length += size
        if length > limit:
            raise _too_large(limit)
        earned = size / LEAST_BYTES_PER_SECOND - (clock() - began)
        patience = min(patience + earned, LONGEST_PAUSE_SECONDS)
        complete = not message.get("more_body", False)
        return message

    return receive_in_time


async def _read(scope: Scope, receive: Receive, *, into: IO[bytes], limit: int) -> RequestBody:
    receive_in_time = bounded(scope, receive, limit=limit)
    more = True
    while more:
        message = await receive_in_time()
        into.write(message.get("body", b""))
        more = message.get("more_body", False)
    return RequestBody(into, into.tell())


def _too_large(limit: int) -> ResourceLimit:
    return ResourceLimit(message=f"The request body may have at most {limit} bytes.")
