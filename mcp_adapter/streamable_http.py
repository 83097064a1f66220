"""Serve `/mcp` and `/mcp/events` over Streamable HTTP: check Origin, then bearer, then method.

The order lets a probe without a token learn where to sign in, whatever method it tries, and keeps
unauthenticated requests from the SDK. Only POST reaches the SDK, which would keep a GET open as an
event stream.
"""

import asyncio
import contextvars
import functools
import json
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

import mcp_types as types
import orjson
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import Message, Receive, Scope, Send

from evidence.page_cutter import dumps
from mcp_adapter.rest import Authenticate, Rest, TokenRejected
from mcp_adapter.server import READ_SURFACE, Context, Offload, ServerInfo, Surface, build_server

_ENDED_GRANT_CODES = frozenset(
    {"grant_revoked", "grant_expired", "grant_consumed", "grant_invalid", "package_revoked"}
)
_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    413: "request_entity_too_large_error",
}
RETRY_SECONDS = "2"
_JSON = b"application/json"
_PRIVATE = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An HTTP response with a JSON error body, or with none."""

    status: int
    body: dict[str, Any] | None
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def build(cls, status: int, code: str, message: str) -> Self:
        """Build an error of the transport in the shape of REST errors."""
        error_type = _ERROR_TYPES.get(
            status, "invalid_request_error" if status < 500 else "api_error"
        )
        return cls(status, {"error": {"type": error_type, "code": code, "message": message}})

    def with_header(self, name: str, value: str) -> "ErrorResponse":
        """Return the response with one more header."""
        return ErrorResponse(self.status, self.body, (*self.headers, (name, value)))

    async def send(self, send: Send) -> None:
        """Send the response over ASGI."""
        content = b"" if self.body is None else dumps(self.body).encode()
        headers = [(name.encode(), value.encode("latin-1")) for name, value in self.headers]
        headers += _PRIVATE
        if content:
            length = str(len(content)).encode()
            headers += [(b"content-type", _JSON), (b"content-length", length)]
        start = {"type": "http.response.start", "status": self.status, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": content})


def rejected_token_response(
    rejected: TokenRejected, *, metadata_url: str, scope: str, token_sent: bool
) -> ErrorResponse:
    """Return the response to a request whose bearer was rejected.

    A grant that has ended returns 401, unlike REST's 403, so that the host signs in again (design
    decision 12). `error=` is present only if a token was sent (RFC 6750, 3.1).
    """
    error = dict(rejected.error)
    status = 401 if error.get("code") in _ENDED_GRANT_CODES else rejected.status
    if status != 401:
        response = ErrorResponse(status, {"error": error})
        return response.with_header("retry-after", RETRY_SECONDS) if status == 503 else response
    error.setdefault("resource_metadata", metadata_url)
    error.setdefault("next_step", "Read the metadata document, then obtain a scoped grant.")
    challenge = f'Bearer resource_metadata="{metadata_url}", scope="{scope}"'
    if token_sent:
        challenge += ', error="invalid_token"'
    return ErrorResponse(status, {"error": error}, (("www-authenticate", challenge),))


_CORS_HEADERS = [
    (b"access-control-allow-methods", b"POST"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, mcp-protocol-version, mcp-method, mcp-name, mcp-session-id",
    ),
    (b"access-control-expose-headers", b"www-authenticate, retry-after"),
    (b"access-control-max-age", b"3600"),
    (b"vary", b"Origin"),
]


def add_cors_headers(send: Send, origin: str) -> Send:
    """Return a `send` that lets pages of one origin read responses, without cookies."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            allowed = (b"access-control-allow-origin", origin.encode("latin-1"))
            message = {**message, "headers": [*message["headers"], allowed, *_CORS_HEADERS]}
        await send(message)

    return send_with_headers


class Utf8Sender:
    """Sends the SDK's response as UTF-8 that must not be cached.

    For protocol 2026-07-28 the SDK escapes every non-ASCII character, up to six bytes for three, and
    for others no invisible ones. It also sends some errors as plain text, which become JSON errors here.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message = {}
        self._parts: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        """Buffer the response until it is complete; in JSON mode the SDK streams nothing."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._parts.append(message.get("body", b""))
        if message.get("more_body", False):
            return
        content = b"".join(self._parts)
        content, content_type = _reencode(content, self._start)
        headers = [
            (name, value)
            for name, value in self._start["headers"]
            if name not in {b"content-length", b"content-type", b"cache-control"}
        ]
        headers += [(b"content-length", str(len(content)).encode()), *_PRIVATE]
        if content:
            headers.append((b"content-type", content_type))
        await self._send({**self._start, "headers": headers})
        await self._send({"type": "http.response.body", "body": content})


def _reencode(content: bytes, start: Message) -> tuple[bytes, bytes]:
    """Return content and content type of a response that the SDK wrote itself."""
    content_type = dict(start["headers"]).get(b"content-type", b"")
    if content_type.startswith(_JSON):
        if start["status"] == 400:
            content = _replace_validation_error(content)
        return (dumps(json.loads(content)).encode() if content else content), _JSON
    if start["status"] < 400:
        return content, content_type
    message = content.decode(errors="replace") or "The request was refused."
    body = ErrorResponse.build(start["status"], "invalid_request", message).body
    return dumps(body).encode(), _JSON


def _replace_validation_error(content: bytes) -> bytes:
    """Return -32600 without the validator's message, which shows internal names and URLs."""
    if b"Validation error" not in content:
        return content
    body = orjson.loads(content)
    body["error"]["code"] = types.INVALID_REQUEST
    body["error"]["message"] = "The body is not a JSON-RPC request or notification"
    return orjson.dumps(body)


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

    `resource_metadata_url` takes the request's Host header. Origins are exact; pages of
    `browser_origins` may read responses (CORS).
    """

    server_info: ServerInfo
    resource_metadata_url: Callable[[str], str]
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
        error = self._check_origin(headers)
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

    def _check_origin(self, headers: dict[str, str]) -> ErrorResponse | None:
        settings, origin = self.settings, headers.get("origin")
        public_url = urlsplit(settings.server_info.public_url)
        own_origin = f"{public_url.scheme}://{public_url.netloc}"
        if origin in {None, own_origin, *settings.allowed_origins, *settings.browser_origins}:
            return None
        # The site has accepted the host, so a page of that host is same-origin.
        if str(origin).partition("://")[2] == headers.get("host"):
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


INVALID_ID = "A request id must be a string or an integer."


def error_body(code: int, message: str, *, request_id: object = None) -> dict[str, Any]:
    """Return a JSON-RPC error response."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def check_body(content: bytes, *, version_header: str | None) -> dict[str, Any] | None:
    """Return the error of a request over HTTP, or None. The SDK answers what is no JSON object.

    The SDK takes a request with an invalid id for a notification, and a request of protocol
    2026-07-28 under the header of another revision, or without one, for one of an older revision.
    """
    try:
        message = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(message, dict) or "method" not in message or "id" not in message:
        return None
    request_id = message["id"]
    if not isinstance(request_id, str | int) or isinstance(request_id, bool):
        return error_body(types.INVALID_REQUEST, INVALID_ID)
    named = _named_version(message)
    if named in MODERN_PROTOCOL_VERSIONS and version_header != named:
        wrong = "is missing" if version_header is None else "does not match the body"
        text = f"The header MCP-Protocol-Version {wrong}: the body names {named}."
        return error_body(types.HEADER_MISMATCH, text, request_id=request_id)
    return None


def _named_version(message: dict[str, Any]) -> object:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(types.PROTOCOL_VERSION_META_KEY) if isinstance(meta, dict) else None
