"""Django's WSGI application served from the ASGI process through a bounded pool of threads.

Django's own ASGI handler starts a thread for each request and costs several times as much. What
this bridge promises:

- Only a complete request takes a place in the queue and a thread; request_bodies.py reads bodies.
- A response is streamed: a thread that is a few chunks ahead of its client waits for it.
- When the client has gone, or stops reading for too long, the thread is free at its next chunk.
- When too many requests wait for a thread, the next one is told to come back.
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

from evidence.errors import Refusal, ServiceUnavailable

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
StartResponse = Callable[..., Callable[[bytes], None]]
WsgiApplication = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

CLIENT_IDLE_SECONDS = 60
CHUNKS_AHEAD = 8
WAITING_REQUESTS = 256


class DisconnectedError(Exception):
    """The client has closed the connection or reads no more."""


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request body that has arrived in full."""

    file: IO[bytes]
    length: int


class WsgiBridge:
    """An ASGI application for ``http`` scopes that runs a WSGI one in ``threads`` threads."""

    def __init__(self, application: WsgiApplication, *, threads: int) -> None:
        self._application = application
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="django")
        self._most = threads + WAITING_REQUESTS
        self._running = 0

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        body: RequestBody,
        extras: Mapping[str, object] = MappingProxyType({}),
    ) -> Refusal | None:
        """Answer one complete request, or return the refusal that the caller answers with.

        ``extras`` are added to the environment of the application.
        """
        if self._running >= self._most:
            return ServiceUnavailable(message="Too many requests wait here. Try again shortly.")
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
            # A request that no thread has begun is not worth beginning without its client.
            if not work.cancel():
                await asyncio.wrap_future(work)

    def close(self) -> None:
        """Take no more. A thread that is still at work must not keep the server from stopping."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Exchange:
    """The way of one response from its thread to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, head: bool) -> None:
        self._loop = loop
        self._head = head
        self._ready: asyncio.Queue[list[Message] | None] = asyncio.Queue()
        self._room = threading.Semaphore(CHUNKS_AHEAD)
        self._abandoned = False
        self._start: Message | None = None
        self._started = False
        self._left: int | None = None

    # --- in the thread ---

    def run(self, application: WsgiApplication, environ: dict[str, Any]) -> None:
        """Run the application and put every chunk on the way."""
        try:
            chunks = application(environ, self.start_response)
            try:
                for chunk in chunks:
                    self.write(chunk)
                    if self._head:
                        break
                if self._left != 0 or not self._started:
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
        """PEP 3333: keeps status and headers until the first chunk goes out."""
        if exc_info is not None and self._started:
            raise exc_info[1].with_traceback(exc_info[2])
        # Django's cookies begin with a blank.
        encoded = [(n.lower().encode("latin-1"), v.strip().encode("latin-1")) for n, v in headers]
        length = dict(encoded).get(b"content-length")
        self._left = int(length) if length is not None and not self._head else None
        self._start = {
            "type": "http.response.start",
            "status": int(status.partition(" ")[0]),
            "headers": encoded,
        }
        return self.write

    def write(self, chunk: bytes) -> None:
        """One chunk; waits while the client is behind, raises ``DisconnectedError`` when it has left."""
        if self._abandoned:
            raise DisconnectedError
        if chunk and not self._head:
            if self._left is not None:
                self._left -= len(chunk)
            self._put(chunk, more=self._left != 0)

    def _put(self, chunk: bytes, *, more: bool) -> None:
        if not self._room.acquire(timeout=CLIENT_IDLE_SECONDS) or self._abandoned:
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
        """Send what the thread delivers, until it has finished or the client has gone."""
        while (messages := await self._ready.get()) is not None:
            for message in messages:
                await send(message)
            self._room.release()

    def abandon(self) -> None:
        """The client has gone: let the thread find out, and wake ``forward``."""
        self._abandoned = True
        self._room.release()
        self._ready.put_nowait(None)


async def _await_disconnect(receive: Receive, exchange: Exchange) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.abandon()


def build_environ(scope: Scope, *, body: RequestBody) -> dict[str, Any]:
    """PEP 3333. ``RAW_URI`` has the path as it was sent, where ``%2F`` still differs from ``/``."""
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
    for name, value in scope["headers"]:
        _add_header(environ, name=name.decode("latin-1"), value=value.decode("latin-1"))
    return environ


def _add_header(environ: dict[str, Any], *, name: str, value: str) -> None:
    # X_Forwarded_For would land on the key of X-Forwarded-For: such a name is a forgery.
    # The body is here in full, so its length is known and how it was sent is past.
    if "_" in name or name in ("content-length", "transfer-encoding"):
        return
    key = name.upper().replace("-", "_")
    key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
    separator = "; " if name == "cookie" else ","
    environ[key] = f"{environ[key]}{separator}{value}" if key in environ else value
