"""The ASGI application: route requests to MCP, health or Django.

Django runs as a WSGI application in a thread pool. The MCP endpoints use the in-process REST API.
"""

import asyncio
import contextlib
import functools
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import orjson
from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.db import Error
from django.http.request import split_domain_port, validate_host
from django.utils import timezone

from evidence.access import tokens
from evidence.access.scope import Scope as Authority
from evidence.api import error_responses
from evidence.api.authentication import METADATA_PATH, ON_ACCEPTED_KEY, challenge, public_url
from evidence.api.error_responses import record_rejected_token
from evidence.errors import ApiException, AuthenticationRequired, GrantPaused, MisdirectedRequest
from mcp_adapter.inprocess import InProcessRest, run_and_release
from mcp_adapter.rest import TokenRejected
from mcp_adapter.server import EVENT_SURFACE, READ_SURFACE, Offload, ServerInfo, Surface
from mcp_adapter.streamable_http import (
    EVENT_PATHS,
    MCP_PATHS,
    McpEndpoint,
    TransportSettings,
    build_endpoint,
    thread_offload,
)
from operations import access_log, health
from pdpp_site import security_headers, views
from pdpp_site.connections import RunningRequests
from pdpp_site.fair_queue import Callers, FairQueue
from pdpp_site.request_bodies import MCP_BYTES, RequestBodies, limited_receive
from pdpp_site.wsgi_bridge import (
    DisconnectedError,
    Message,
    Receive,
    RequestBody,
    Scope,
    Send,
    WsgiApplication,
    WsgiBridge,
    build_environ,
)


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of a request in the fair queue, and the callback for an accepted token."""

    place: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext
    accepted: Callable[[], None] = lambda: None


queue_place: ContextVar[QueuePlace] = ContextVar("turns", default=QueuePlace())  # noqa: B039 - it is frozen

RESOURCE = "/mcp"
EVENTS_RESOURCE = "/mcp/events"


def endpoint() -> McpEndpoint:
    """Return the `/mcp` endpoint. Its lifespan runs only once."""
    return _endpoint(RESOURCE, READ_SURFACE)


def events_endpoint() -> McpEndpoint:
    """Return the `/mcp/events` endpoint, whose tools manage event subscriptions and read no records."""
    return _endpoint(EVENTS_RESOURCE, EVENT_SURFACE)


def _endpoint(resource: str, surface: Surface) -> McpEndpoint:
    return build_endpoint(
        InProcessRest(),
        functools.partial(authenticate, resource=resource),
        settings=TransportSettings(
            server_info=server_info(),
            surface=surface,
            offload=queued(thread_offload(max(4, settings.PDPP_THREADS))),
            resource_metadata_url=lambda host: f"{public_url(host)}{METADATA_PATH}{resource}",
            allowed_origins=tuple(settings.CSRF_TRUSTED_ORIGINS),
            browser_origins=frozenset(settings.PDPP_BROWSER_ORIGINS),
        ),
    )


def queued(offload: Offload) -> Offload:
    """Return an `offload` that waits for a place in the fair queue before it takes a thread."""

    async def offload_queued(work: Callable[[], Any]) -> Any:
        async with queue_place.get().place():
            return await offload(work)

    return offload_queued


def server_info() -> ServerInfo:
    return ServerInfo(public_url=settings.PDPP_PUBLIC_URL)


def authenticate(bearer: str | None, *, resource: str = RESOURCE) -> Authority:
    """Return the scope of a bearer token at an MCP endpoint. Raises TokenRejected.

    Runs one query and releases its connection.
    """
    try:
        if bearer is None:
            raise AuthenticationRequired
        scope = run_and_release(
            lambda: tokens.authenticate(bearer, resource=resource, now=timezone.now())
        )
    except (ApiException, Error) as error:
        api_error = error_responses.to_api_exception(error)
        request_id = f"req_{secrets.token_hex(10)}"
        record = functools.partial(
            run_and_release,
            lambda: record_rejected_token(api_error, route="mcp", request_id=request_id),
        )
        if not isinstance(api_error, GrantPaused):
            record()
        body = error_responses.error_body(api_error, request_id=request_id)
        status = api_error.code.status
        raise TokenRejected(status, body["error"], record=record) from error
    queue_place.get().accepted()
    return scope


logger = logging.getLogger(__name__)

READY_SECONDS = 3
API = "/v1"
RESERVED_THREADS = 2
"""Threads that API clients leave free for the owner's pages and sign-in, and vice versa."""
PAGES_PER_CALLER = 4


class AsgiApp:
    """The ASGI application. Its lifespan runs only once."""

    def __init__(
        self,
        *,
        application: WsgiApplication,
        endpoint: McpEndpoint,
        events: McpEndpoint | None = None,
    ) -> None:
        self._django = WsgiBridge(application, threads=settings.PDPP_THREADS)
        self._callers = Callers()
        # Each queue leaves some threads for the other.
        self._api_queue = FairQueue(max(1, settings.PDPP_THREADS - RESERVED_THREADS))
        self._page_queue = FairQueue(
            max(1, settings.PDPP_THREADS - RESERVED_THREADS),
            running_per_caller=PAGES_PER_CALLER,
        )
        self._endpoint, self._events = endpoint, events
        self._bodies = RequestBodies()
        self._running_requests = RunningRequests(
            max_per_client=settings.PDPP_CLIENT_CONNECTIONS,
            proxies=settings.PDPP_TRUSTED_PROXIES,
        )
        self._probe = ThreadPoolExecutor(1, thread_name_prefix="readyz")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            with access_log.log_request(scope, send) as noting:
                await self._handle_errors(
                    scope, receive, security_headers.add_security_headers(noting)
                )
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _handle_errors(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and turn an exception into an error response unless the response has begun."""
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            with self._running_requests.of(_client_address(scope)):
                await self._answer(scope, receive, send_and_note)
        except DisconnectedError:
            return  # the client is gone, which is no failure
        except ApiException as error:
            if started:
                raise
            await _send_error(scope, send, error)
        except Exception:
            logger.exception("A request failed outside Django.")
            if started:
                raise
            await _send_error(scope, send, error_responses.InternalError())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/healthz":
            await _send_json(send, status=200, body={"status": "ok"})
        elif path == "/readyz":
            await self._answer_ready(send)
        elif not _host_allowed(scope):
            await _send_error(scope, send, MisdirectedRequest())
        elif path in MCP_PATHS:
            await self._answer_mcp(self._endpoint, scope, receive, send)
        elif self._events is not None and path in EVENT_PATHS:
            await self._answer_mcp(self._events, scope, receive, send)
        else:
            await self._answer_with_django(scope, receive, send)

    async def _answer_mcp(
        self, endpoint: McpEndpoint, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Run the MCP endpoint, which takes a queue place only for its work in threads."""
        caller = self._callers.of_bearer(scope)
        self._api_queue.refuse_if_full(caller.name)
        queue_place.set(
            QueuePlace(functools.partial(self._api_queue.place, caller.name), caller.accepted)
        )
        await endpoint.app(scope, limited_receive(scope, receive, limit=MCP_BYTES), send)

    async def _answer_with_django(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._bodies.read(scope, receive) as body:
            error = await self._run(scope, receive, send, body=body)
        if error is not None:
            raise error

    async def _run(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        body: RequestBody,
    ) -> ApiException | None:
        """Run a complete request when its caller has a place in the queue."""
        is_api = scope["path"].startswith(API)
        queue = self._api_queue if is_api else self._page_queue
        caller = self._callers.of_bearer(scope) if is_api else self._callers.of_session(scope)
        queue.refuse_if_full(caller.name)
        async with queue.place(caller.name):
            on_accepted = {ON_ACCEPTED_KEY: caller.accepted}
            return await self._django(scope, receive, send, body=body, extras=on_accepted)

    async def _answer_ready(self, send: Send) -> None:
        loop = asyncio.get_running_loop()
        try:
            reason = await asyncio.wait_for(
                loop.run_in_executor(self._probe, health.not_ready_reason), READY_SECONDS
            )
        except TimeoutError:
            reason = f"The database did not answer within {READY_SECONDS} seconds."
        if reason is not None:
            await _send_json(send, status=503, body={"status": "unready", "reason": reason})
            return
        warning = await loop.run_in_executor(self._probe, health.background_warning, timezone.now())
        body = {"status": "ready"} | ({"warning": warning} if warning else {})
        await _send_json(send, status=200, body=body)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
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
            async with contextlib.AsyncExitStack() as lifespans:
                for endpoint in filter(None, (self._endpoint, self._events)):
                    await lifespans.enter_async_context(endpoint.lifespan())
                yield
        finally:
            self._django.close()
            self._bodies.close()
            self._probe.shutdown(wait=False, cancel_futures=True)


def _host_allowed(scope: Scope) -> bool:
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1:
        return False
    domain, _ = split_domain_port(hosts[0].decode("latin-1"))
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def _client_address(scope: Scope) -> str:
    """Return the client address, as reported by a trusted proxy."""
    client = scope.get("client")
    return str(client[0]) if client else ""


async def _send_error(scope: Scope, send: Send, error: ApiException) -> None:
    """Send an error for a request that does not reach Django: a page for browsers, else JSON."""
    request = WSGIRequest(build_environ(scope, body=RequestBody(BytesIO(), 0)))
    response = views.error_response(request, error)
    if response.status_code == 401:
        response["WWW-Authenticate"] = challenge(request)
    headers = {name.lower(): value for name, value in response.items()}
    await _send(send, response.status_code, response.content, headers)


async def _send_json(send: Send, *, status: int, body: Any) -> None:
    await _send(send, status, orjson.dumps(body), {"content-type": "application/json"})


async def _send(send: Send, status: int, content: bytes, headers: Mapping[str, str]) -> None:
    all_headers = {"content-length": str(len(content)), "cache-control": "no-store", **headers}
    encoded = [(name.encode(), value.encode()) for name, value in all_headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": content})
