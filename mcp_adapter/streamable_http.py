"""Serve `/mcp` and `/mcp/events` over Streamable HTTP: check Host and Origin, then bearer, then method.

The order lets a probe without a token learn where to sign in, whatever method it tries, and keeps
unauthenticated requests from the SDK. Only POST reaches the SDK, which would keep a GET open as an
event stream.
"""

import asyncio
import contextvars
import functools
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from mcp_adapter.http_responses import (
    RETRY_SECONDS,
    ErrorResponse,
    Utf8Sender,
    add_cors_headers,
    rejected_token_response,
)
from mcp_adapter.jsonrpc import check_body
from mcp_adapter.rest import Authenticate, Rest, TokenRejected
from mcp_adapter.server import Context, Offload, ServerInfo, build_server
from mcp_adapter.surfaces import READ_SURFACE, Surface

_log = logging.getLogger(__name__)
_AUTHORITY = "mcp_adapter.authority"
MCP_PATHS = frozenset({"/mcp", "/mcp/"})
EVENT_PATHS = frozenset({"/mcp/events", "/mcp/events/"})


def thread_offload(count: int) -> Offload:
    """Return an offload that runs work in its own `count` threads, with the caller's context."""
    pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="mcp")

    async def offload(work: Callable[[], Any]) -> Any:
        run = functools.partial(contextvars.copy_context().run, work)
        return await asyncio.get_running_loop().run_in_executor(pool, run)

    return offload


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """Settings of one endpoint.

    `resource_metadata_url` takes the request's Host header. `allowed_hosts` are names without port, as in Django ("*" is any); origins are exact. Pages of `browser_origins` may read responses (CORS).
    """

    server_info: ServerInfo
    resource_metadata_url: Callable[[str], str]
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...] = ()
    browser_origins: frozenset[str] = frozenset()
    max_body_bytes: int = 1_048_576
    scope: str = "pdpp:read"
    surface: Surface = READ_SURFACE
    offload: Offload = field(default_factory=functools.partial(thread_offload, 4))


@dataclass(frozen=True, slots=True)
class McpEndpoint:
    """The ASGI application of one endpoint; it responds only inside `lifespan()`."""

    authenticate: Authenticate
    settings: TransportSettings
    manager: StreamableHTTPSessionManager

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run the transport. An endpoint can be run only once."""
        async with self.manager.run():
            yield

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one HTTP request."""
        # RFC 9110, 5.5: white space around a field value is not part of it. Some ASGI servers keep
        # it, and the SDK compares header values with the body.
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        headers = _headers(scope)
        error = self._check_host(headers)
        if error is None and headers.get("origin") in self.settings.browser_origins:
            send = add_cors_headers(send, headers["origin"])
            if scope["method"] == "OPTIONS":
                await ErrorResponse(204, None).send(send)
                return
        error = error or await self._authenticate(scope, headers)
        if error is None and scope["method"] != "POST":
            error = ErrorResponse.build(405, "method_not_allowed", "Only POST is served here.")
            error = error.with_header("allow", "POST")
        if error is None and _declared_length(headers) > self.settings.max_body_bytes:
            error = ErrorResponse.build(413, "resource_limit", "The request body is too large.")
        if error is None:
            body = await _read_body(receive, limit=self.settings.max_body_bytes)
            if body is None:
                return
            invalid = check_body(body, version_header=headers.get("mcp-protocol-version"))
            error = None if invalid is None else ErrorResponse(400, invalid)
            receive = _replay(body, receive)
        if error is not None:
            await error.send(send)
            return
        await self.manager.handle_request(scope, receive, Utf8Sender(send))

    def _check_host(self, headers: dict[str, str]) -> ErrorResponse | None:
        settings = self.settings
        host = headers.get("host", "")
        if not _is_allowed_host(host, settings.allowed_hosts):
            return ErrorResponse.build(
                421, "misdirected_request", "This server does not answer for that host."
            )
        origin = headers.get("origin")
        public_url = urlsplit(settings.server_info.public_url)
        own_origin = f"{public_url.scheme}://{public_url.netloc}"
        if origin in {None, own_origin, *settings.allowed_origins, *settings.browser_origins}:
            return None
        # The host was accepted above, so a page of that host is same-origin.
        if str(origin).partition("://")[2] == host:
            return None
        return ErrorResponse.build(
            403, "permission_error", "Requests from that origin are refused."
        )

    async def _authenticate(self, scope: Scope, headers: dict[str, str]) -> ErrorResponse | None:
        """Store the authority in the scope, or return the error of a rejected bearer.

        A paused grant connects and lists; each call and each read raises its error.
        """
        bearer = _bearer(headers.get("authorization"))
        try:
            scope[_AUTHORITY] = await self.settings.offload(lambda: self.authenticate(bearer))
        except TokenRejected as rejected:
            if rejected.error.get("code") == "grant_paused":
                # Hosts take a 403 at connect for "sign in again", and keep it after the pause.
                scope[_AUTHORITY] = rejected
                return None
            return rejected_token_response(
                rejected,
                metadata_url=self.settings.resource_metadata_url(headers.get("host", "")),
                scope=self.settings.scope,
                token_sent=bearer is not None,
            )
        except Exception:  # noqa: BLE001 - the client gets a response, the log the reason
            _log.exception("authentication failed inside the server")
            error = ErrorResponse.build(503, "service_unavailable", "Try again in a moment.")
            return error.with_header("retry-after", RETRY_SECONDS)
        return None


def build_endpoint(
    rest: Rest, authenticate: Authenticate, *, settings: TransportSettings
) -> McpEndpoint:
    """Build an endpoint over a REST API; enter its `lifespan()` before it serves."""
    server = build_server(
        rest,
        authority_of=_authority,
        offload=settings.offload,
        server_info=settings.server_info,
        surface=settings.surface,
    )
    manager = StreamableHTTPSessionManager(
        server,
        json_response=True,
        stateless=True,
        max_request_body_size=settings.max_body_bytes,
    )
    return McpEndpoint(authenticate, settings, manager)


async def _read_body(receive: Receive, *, limit: int) -> bytes | None:
    """Return the body, or None if the client has gone.

    Of a body longer than `limit`, which the SDK refuses, it returns the beginning.
    """
    body, more = b"", True
    while more and len(body) <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body that was read, then goes on."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again


def _authority(ctx: Context) -> object:
    authority = ctx.request.scope[_AUTHORITY] if ctx.request is not None else None
    if isinstance(authority, TokenRejected):
        raise authority
    return authority


def _headers(scope: Scope) -> dict[str, str]:
    # The first of a repeated header wins here; the SDK refuses repeated routing headers itself.
    pairs = reversed(scope["headers"])
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}


def _bearer(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _declared_length(headers: dict[str, str]) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() else 0


def _is_allowed_host(host: str, allowed: tuple[str, ...]) -> bool:
    name = host.lower()
    # Only the last colon after a bracket or a name starts a port: [::1]:8000, localhost:8000.
    if not name.endswith("]"):
        name = name.rpartition(":")[0] or name
    return bool(name) and any(_matches_host(pattern.lower(), name) for pattern in allowed)


def _matches_host(pattern: str, name: str) -> bool:
    if pattern.startswith("."):
        return name == pattern[1:] or name.endswith(pattern)
    return pattern in {"*", name}
