"""Run Django's WSGI application from ASGI in a bounded thread pool.

Django's own ASGI handler starts a thread per request and is several times slower.

- Only a complete request takes a thread; request_bodies.py reads bodies.
- Responses are streamed: a thread waits when it is CHUNKS_AHEAD of its client.
- When the client disconnects or stops reading, the thread is free at its next chunk.
- When too many requests wait for a thread, further ones get a 503.
"""

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, Any
from urllib.parse import unquote_to_bytes

from evidence.errors import ApiException, ServiceUnavailable

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
StartResponse = Callable[..., Callable[[bytes], None]]
WsgiApplication = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

CLIENT_IDLE_SECONDS = 60
CHUNKS_AHEAD = 8
MAX_WAITING_REQUESTS = 256


class DisconnectedError(Exception):
    """The client closed the connection or stopped reading."""


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A complete request body."""

    file: IO[bytes]
    length: int


class WsgiBridge:
    """An ASGI application for `http` scopes that runs a WSGI application in threads."""

    def __init__(self, application: WsgiApplication, *, threads: int) -> None:
        self._application = application
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="django")
        self._max_running = threads + MAX_WAITING_REQUESTS
        self._running = 0

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        body: RequestBody,
        extras: Mapping[str, object] = MappingProxyType({}),
    ) -> ApiException | None:
        """Answer a complete request, or return an error for the caller to send.

        `extras` are added to the WSGI environment.
        """
        if self._running >= self._max_running:
            return ServiceUnavailable(message="Too many requests are waiting. Try again shortly.")
        self._running += 1
        try:
            body.file.seek(0)
            environ = build_environ(scope, body=body) | dict(extras)
            await self._exchange(environ, receive, send)
        finally:
            self._running -= 1
        return None

    async def _exchange(self, environ: dict[str, Any], receive: Receive, send: Send) -> None:
        exchange = Exchange(asyncio.get_running_loop(), head=environ["REQUEST_METHOD"] == "HEAD")
        work = self._threads.submit(exchange.run, self._application, environ)
        watch = asyncio.create_task(_await_disconnect(receive, exchange))
        try:
            await exchange.forward(send)
        finally:
            watch.cancel()
            exchange.abandon()
            # A request without a client need not start.
            if not work.cancel():
                await asyncio.wrap_future(work)

    def close(self) -> None:
        """Stop accepting requests, without waiting for running threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Exchange:
    """Passes one response from its thread to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, head: bool) -> None:
        self._loop = loop
        self._head = head
        self._ready: asyncio.Queue[list[Message] | None] = asyncio.Queue()
        self._free_slots = threading.Semaphore(CHUNKS_AHEAD)
        self._abandoned = False
        self._start: Message | None = None
        self._started = False
        self._bytes_left: int | None = None

    # --- in the thread ---

    def run(self, application: WsgiApplication, environ: dict[str, Any]) -> None:
        """Run the application and queue each chunk."""
        try:
            chunks = application(environ, self.start_response)
            try:
                for chunk in chunks:
                    self.write(chunk)
                    if self._head:
                        break
                if self._bytes_left != 0 or not self._started:
                    self._put(b"", more=False)
            finally:
                close = getattr(chunks, "close", None)
                if close is not None:
                    close()
        except DisconnectedError:
            pass
        finally:
            self._deliver(None)

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        """Store status and headers until the first chunk is sent (PEP 3333)."""
        if exc_info is not None and self._started:
            raise exc_info[1].with_traceback(exc_info[2])
        # Django's cookie headers start with a space.
        encoded = [(n.lower().encode("latin-1"), v.strip().encode("latin-1")) for n, v in headers]
        length = dict(encoded).get(b"content-length")
        self._bytes_left = int(length) if length is not None and not self._head else None
        self._start = {
            "type": "http.response.start",
            "status": int(status.partition(" ")[0]),
            "headers": encoded,
        }
        return self.write

    def write(self, chunk: bytes) -> None:
        """Queue a chunk; wait while the client is behind. Raises DisconnectedError."""
        if self._abandoned:
            raise DisconnectedError
        if chunk and not self._head:
            if self._bytes_left is not None:
                self._bytes_left -= len(chunk)
            self._put(chunk, more=self._bytes_left != 0)

    def _put(self, chunk: bytes, *, more: bool) -> None:
        if not self._free_slots.acquire(timeout=CLIENT_IDLE_SECONDS) or self._abandoned:
            raise DisconnectedError
        if self._start is None:
            raise RuntimeError("The application has not called start_response.")
        body: Message = {"type": "http.response.body", "body": chunk, "more_body": more}
        messages = [body] if self._started else [self._start, body]
        self._started = True
        self._deliver(messages)

    def _deliver(self, messages: list[Message] | None) -> None:
        self._loop.call_soon_threadsafe(self._ready.put_nowait, messages)

    # --- in the event loop ---

    async def forward(self, send: Send) -> None:
        """Send messages from the thread, until it finishes or the client disconnects."""
        while (messages := await self._ready.get()) is not None:
            for message in messages:
                await send(message)
            self._free_slots.release()

    def abandon(self) -> None:
        """Stop the thread at its next chunk, and wake `forward`."""
        self._abandoned = True
        self._free_slots.release()
        self._ready.put_nowait(None)


async def _await_disconnect(receive: Receive, exchange: Exchange) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.abandon()


def build_environ(scope: Scope, *, body: RequestBody) -> dict[str, Any]:
    """Return the WSGI environment (PEP 3333). `RAW_URI` is the undecoded path."""
    raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
    server = scope.get("server") or ("localhost", 80)
    client = scope.get("client") or ("", 0)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(raw_path).decode("latin-1"),
        "RAW_URI": raw_path.decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 0),
        "REMOTE_ADDR": client[0],
        "CONTENT_LENGTH": str(body.length) if body.length else "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": body.file,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    # Exactly one: a client could have added the header before the proxy did.
    if len(users := scope.get("pdpp.proxy_user", ())) == 1 and users[0]:
        environ["pdpp.proxy_user"] = users[0].decode("latin-1")
    for name, value in scope["headers"]:
        _add_header(environ, name=name.decode("latin-1"), value=value.decode("latin-1"))
    return environ


def _add_header(environ: dict[str, Any], *, name: str, value: str) -> None:
    # X_Forwarded_For would set the same key as X-Forwarded-For, so names with "_" are dropped.
    # The body is complete, so its length and encoding headers no longer apply.
    if "_" in name or name in ("content-length", "transfer-encoding"):
        return
    key = name.upper().replace("-", "_")
    key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
    separator = "; " if name == "cookie" else ","
    environ[key] = f"{environ[key]}{separator}{value}" if key in environ else value
