"""One process, one port: who answers which request.

``/mcp`` and ``/mcp/events`` go to the MCP transport, everything else to Django's WSGI application in a pool of
threads. ``/healthz`` says that the process runs, ``/readyz`` that it can serve,
``/metrics`` how it fares.
"""

import asyncio
import contextlib
import functools
import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import orjson
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from django.utils import timezone

from evidence.api import error_responses
from evidence.api.authentication import ACCEPTED, metadata_url
from evidence.errors import Code, MisdirectedRequest, Refusal
from mcp_adapter.streamable_http import EVENT_PATHS, McpEndpoint
from mcp_adapter.streamable_http import PATHS as MCP_PATHS
from operations import access_log, health, metrics, tracing
from pdpp_site import security_headers
from pdpp_site.callers import Callers
from pdpp_site.connections import RunningRequests
from pdpp_site.fair_queue import FairQueue
from pdpp_site.long_poll import Waits, asks_to_wait
from pdpp_site.mcp_endpoints import Turns, turns
from pdpp_site.request_bodies import MCP_BYTES, RequestBodies, bounded
from pdpp_site.wsgi_bridge import (
    DisconnectedError,
    Message,
    Receive,
    RequestBody,
    Scope,
    Send,
    WsgiApplication,
    WsgiBridge,
)

logger = logging.getLogger(__name__)

READY_SECONDS = 3
API = "/v1"
RESERVED_THREADS = 2
"""Threads that programs cannot take from the owner's pages and sign-in, nor those from programs."""
PAGES_PER_CALLER = 4


class NotForYou(Refusal):
    """Metrics are for programs on this machine, or for whoever holds PDPP_METRICS_TOKEN."""

    code = Code.PERMISSION_ERROR


class Site:
    """The ASGI application. Its lifespan can run once: build another for another run."""

    def __init__(
        self,
        *,
        application: WsgiApplication,
        endpoint: McpEndpoint,
        events: McpEndpoint | None = None,
        spans: tracing.Spans = tracing.NONE,
    ) -> None:
        self._django = WsgiBridge(application, threads=settings.PDPP_THREADS)
        self._callers = Callers()
        # Both leave the other some of the threads, whatever is asked of them.
        self._programs = FairQueue(max(1, settings.PDPP_THREADS - RESERVED_THREADS))
        self._pages = FairQueue(
            max(1, settings.PDPP_THREADS - RESERVED_THREADS),
            running_per_caller=PAGES_PER_CALLER,
        )
        self._endpoint, self._events = endpoint, events
        self._spans = spans
        self._bodies = RequestBodies()
        self._clients = RunningRequests(
            most_per_client=settings.PDPP_CLIENT_CONNECTIONS,
            proxies=settings.PDPP_TRUSTED_PROXIES,
        )
        self._waits = Waits()
        self._probe = ThreadPoolExecutor(1, thread_name_prefix="readyz")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            with access_log.noted(scope, send, spans=self._spans) as noting:
                await self._answer_anyway(scope, receive, security_headers.fenced(noting))
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _answer_anyway(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What fails here gets the error of everything else, as long as nothing has been said."""
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            with self._clients.of(_client_address(scope)):
                await self._answer(scope, receive, noting)
        except DisconnectedError:
            return  # Nobody is left to answer, and nothing has failed.
        except Refusal as refusal:
            if started:
                raise
            await _refuse(send, refusal, challenge=_challenge(scope))
        except Exception:
            logger.exception("A request failed before or beside Django.")
            if started:
                raise
            await _refuse(send, error_responses.InternalError())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/healthz":
            await _send_json(send, status=200, body={"status": "ok"})
        elif path == "/readyz":
            await self._answer_ready(send)
        elif not _host_allowed(scope):
            await _refuse(send, MisdirectedRequest())
        elif path == "/metrics":
            await self._answer_metrics(scope, send)
        elif path in MCP_PATHS:
            await self._answer_mcp(self._endpoint, scope, receive, send)
        elif self._events is not None and path in EVENT_PATHS:
            await self._answer_mcp(self._events, scope, receive, send)
        else:
            await self._answer_with_django(scope, receive, send)

    async def _answer_mcp(
        self, endpoint: McpEndpoint, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """The endpoint takes a place for each piece of work in a thread, none for what it awaits."""
        caller = self._callers.of_bearer(scope)
        self._programs.refuse_if_full(caller.name)
        turns.set(Turns(functools.partial(self._programs.place, caller.name), caller.accepted))
        await endpoint.app(scope, bounded(scope, receive, limit=MCP_BYTES), send)

    async def _answer_with_django(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._bodies.read(scope, receive) as body:
            run = functools.partial(self._run, body=body)
            if asks_to_wait(scope):
                refusal = await self._waits.answer(run, scope, receive, send)
            else:
                refusal = await run(scope, receive, send)
        if refusal is not None:
            raise refusal

    async def _run(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        body: RequestBody,
        extras: Mapping[str, object] = MappingProxyType({}),
    ) -> Refusal | None:
        """Run a complete request when it is the turn of its caller."""
        of_program = scope["path"].startswith(API)
        queue = self._programs if of_program else self._pages
        caller = self._callers.of_bearer(scope) if of_program else self._callers.of_session(scope)
        queue.refuse_if_full(caller.name)
        async with queue.place(caller.name):
            known = {ACCEPTED: caller.accepted}
            return await self._django(scope, receive, send, body=body, extras={**extras, **known})

    def stop_waiting(self) -> None:
        """Answers every request that waits for changes, before the server waits for them."""
        self._waits.end()

    async def _answer_ready(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        try:
            reason = await asyncio.wait_for(
                loop.run_in_executor(self._probe, health.unready), READY_SECONDS
            )
        except TimeoutError:
            reason = f"The database did not answer within {READY_SECONDS} seconds."
        if reason is not None:
            await _send_json(send, status=503, body={"status": "unready", "reason": reason})
            return
        warning = await loop.run_in_executor(self._probe, health.idle, timezone.now())
        body = {"status": "ready"} | ({"warning": warning} if warning else {})
        await _send_json(send, status=200, body=body)

    async def _answer_metrics(self, scope: Scope, send: Send) -> None:
        if metrics.may_ask(scope):
            content, kind = await asyncio.to_thread(metrics.written)
            await _send(send, status=200, content=content, kind=kind)
        else:
            await _refuse(send, NotForYou())

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        phase = "startup"
        try:
            async with self._running():
                await send({"type": "lifespan.startup.complete"})
                phase = "shutdown"
                await receive()
        except Exception as error:
            await send({"type": f"lifespan.{phase}.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.shutdown.complete"})

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        try:
            async with contextlib.AsyncExitStack() as living:
                for endpoint in filter(None, (self._endpoint, self._events)):
                    await living.enter_async_context(endpoint.lifespan())
                yield
        finally:
            self._waits.close()
            self._django.close()
            self._bodies.close()
            self._probe.shutdown(wait=False, cancel_futures=True)
            await asyncio.to_thread(self._spans.close)


def _host_allowed(scope: Scope) -> bool:
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1:
        return False
    domain, _ = split_domain_port(hosts[0].decode("latin-1"))
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def _client_address(scope: Scope) -> str:
    """Return the address of the client, as a trusted proxy names it."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _challenge(scope: Scope) -> str:
    challenge = f'Bearer resource_metadata="{metadata_url()}"'
    token_sent = any(name == b"authorization" for name, _ in scope["headers"])
    return f'{challenge}, error="invalid_token"' if token_sent else challenge


async def _refuse(send: Send, refusal: Refusal, *, challenge: str = "") -> None:
    """The same envelope as every error of the API, for what never reaches it."""
    request_id = f"req_{secrets.token_hex(10)}"
    # What still comes of the body is discarded for a while (connections.py): a client or proxy that
    # is cut off in the middle of sending would not read this answer.
    sent = {"request-id": request_id, "x-request-id": request_id}
    status = error_responses.STATUS[refusal.code]
    if status == 401:
        sent["www-authenticate"] = challenge
    if status in (429, 503):
        sent["retry-after"] = error_responses.RETRY_SECONDS
    body = error_responses.body(refusal, request_id=request_id)
    await _send_json(send, status=status, body=body, more=sent)


async def _send_json(
    send: Send, *, status: int, body: Any, more: Mapping[str, str] | None = None
) -> None:
    await _send(send, status=status, content=orjson.dumps(body), more=more)


async def _send(
    send: Send,
    *,
    status: int,
    content: bytes,
    kind: str = "application/json",
    more: Mapping[str, str] | None = None,
) -> None:
    sent = {
        "content-type": kind,
        "content-length": str(len(content)),
        "cache-control": "no-store",
    } | dict(more or {})
    encoded = [(name.encode(), value.encode()) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": content})
