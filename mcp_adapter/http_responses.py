"""HTTP responses of the transport itself, and the UTF-8 encoding of responses from the SDK."""

import json
from dataclasses import dataclass
from typing import Any, Self

import mcp_types as types
import orjson
from starlette.types import Message, Send

from evidence.page_cutter import dumps
from mcp_adapter.rest import TokenRejected

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
