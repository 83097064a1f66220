"""`/mcp` and `/mcp/events` over HTTP: who may speak, in what form, and then the SDK's stateless transport.

The order is fixed: Host and Origin, then the bearer, then the method. So a probe without a token
learns where to sign in whatever method it tried, and no request reaches the SDK unauthenticated.
Only POST does: the SDK would hold a GET open as an event stream.
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
from starlette.types import Receive, Scope, Send

from mcp_adapter.http_responses import RETRY_SECONDS, Answer, Utf8Sender, unauthorized
from mcp_adapter.metrics import Spanned, unspanned
from mcp_adapter.rest import Authenticate, Refused, Rest
from mcp_adapter.server import Context, Identity, Offload, build_server
from mcp_adapter.surfaces import READ, Surface

_log = logging.getLogger(__name__)
_AUTHORITY = "mcp_adapter.authority"
PATHS = frozenset({"/mcp", "/mcp/"})
EVENT_PATHS = frozenset({"/mcp/events", "/mcp/events/"})


def threads(count: int) -> Offload:
    """Run blocking work in `count` threads of its own, each with the caller's context."""
    pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="mcp")

    async def offload(work: Callable[[], Any]) -> Any:
        run = functools.partial(contextvars.copy_context().run, work)
        return await asyncio.get_running_loop().run_in_executor(pool, run)

    return offload


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """`allowed_hosts` are names without port, as in Django ("*" is any); origins are exact."""

    identity: Identity
    resource_metadata_url: str
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...] = ()
    max_body_bytes: int = 1_048_576
    scope: str = "pdpp:read"
    surface: Surface = READ
    offload: Offload = field(default_factory=functools.partial(threads, 4))
    spanned: Spanned = unspanned


@dataclass(frozen=True, slots=True)
class McpEndpoint:
    """The ASGI application of one endpoint; it answers only inside `lifespan()`."""

    authenticate: Authenticate
    settings: TransportSettings
    manager: StreamableHTTPSessionManager

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run the transport. May be entered once: build another endpoint for another run."""
        async with self.manager.run():
            yield

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP request."""
        # RFC 9110, 5.5: white space around a field value is not part of it. Not every ASGI server
        # takes it off, and the SDK compares header values with the body.
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        headers = _headers(scope)
        answer = self._misdirected(headers) or await self._refusal(scope, headers)
        if answer is None and scope["method"] != "POST":
            answer = Answer.plain_error(405, "method_not_allowed", "Only POST is served here.")
            answer = answer.with_header("allow", "POST")
        if answer is None and _declared_length(headers) > self.settings.max_body_bytes:
            answer = Answer.plain_error(413, "resource_limit", "The request body is too large.")
        if answer is not None:
            await answer.send(send)
            return
        await self.manager.handle_request(scope, receive, Utf8Sender(send, scope))

    def _misdirected(self, headers: dict[str, str]) -> Answer | None:
        settings = self.settings
        host = headers.get("host", "")
        if not _host_allowed(host, settings.allowed_hosts):
            return Answer.plain_error(
                421, "misdirected_request", "This server does not answer for that host."
            )
        origin = headers.get("origin")
        own = urlsplit(settings.identity.public_url)
        if origin in {None, f"{own.scheme}://{own.netloc}", *settings.allowed_origins}:
            return None
        # A page of this very host, which has just been found to be ours, is no stranger.
        if str(origin).partition("://")[2] == host:
            return None
        return Answer.plain_error(403, "permission_error", "Requests from that origin are refused.")

    async def _refusal(self, scope: Scope, headers: dict[str, str]) -> Answer | None:
        """None once the bearer is accepted, and the authority then stands in the scope."""
        bearer = _bearer(headers.get("authorization"))
        try:
            scope[_AUTHORITY] = await self.settings.offload(lambda: self.authenticate(bearer))
        except Refused as refused:
            return unauthorized(
                refused,
                metadata_url=self.settings.resource_metadata_url,
                scope=self.settings.scope,
                token_sent=bearer is not None,
            )
        except Exception:  # noqa: BLE001 - the caller gets an answer, the log the reason
            _log.exception("authentication failed inside the server")
            answer = Answer.plain_error(503, "service_unavailable", "Try again in a moment.")
            return answer.with_header("retry-after", RETRY_SECONDS)
        return None


def build(rest: Rest, authenticate: Authenticate, *, settings: TransportSettings) -> McpEndpoint:
    """The endpoint over a resource server; enter its `lifespan()` before it serves."""
    server = build_server(
        rest,
        authority_of=_authority,
        offload=settings.offload,
        identity=settings.identity,
        surface=settings.surface,
        spanned=settings.spanned,
    )
    manager = StreamableHTTPSessionManager(
        server,
        json_response=True,
        stateless=True,
        max_request_body_size=settings.max_body_bytes,
    )
    return McpEndpoint(authenticate, settings, manager)


def _authority(ctx: Context) -> object:
    return ctx.request.scope[_AUTHORITY] if ctx.request is not None else None


def _headers(scope: Scope) -> dict[str, str]:
    # The first of a repeated header counts here; the SDK refuses repeated routing headers itself.
    pairs = reversed(scope["headers"])
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}


def _bearer(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def _declared_length(headers: dict[str, str]) -> int:
    declared = headers.get("content-length", "")
    return int(declared) if declared.isdecimal() else 0


def _host_allowed(host: str, allowed: tuple[str, ...]) -> bool:
    name = host.lower()
    # Only the last colon after a bracket or a name starts a port: [::1]:8000, localhost:8000.
    if not name.endswith("]"):
        name = name.rpartition(":")[0] or name
    return any(_names(pattern.lower(), name) for pattern in allowed) and bool(name)


def _names(pattern: str, name: str) -> bool:
    if pattern.startswith("."):
        return name == pattern[1:] or name.endswith(pattern)
    return pattern in {"*", name}
