"""The answers that the transport gives itself, and the form in which the SDK's leave."""

import json
import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, Self

import orjson
from starlette.types import Message, Scope, Send

from mcp_adapter.json_text import dumps
from mcp_adapter.rest import Refused

_KEY = "mcp_adapter.raw_result"


def handed_over(raw: str, scope: MutableMapping[str, Any] | None) -> dict[str, Any]:
    """What to give the SDK for a result: a stand-in over HTTP, the result itself otherwise."""
    if scope is None:
        result: dict[str, Any] = json.loads(raw)
        return result
    stand_in = {"raw": secrets.token_hex(8)}
    scope[_KEY] = (orjson.dumps(stand_in), raw.encode())
    return stand_in


def restored(content: bytes, scope: MutableMapping[str, Any]) -> bytes | None:
    """The answer with the result in the place of its stand-in; None if it has none."""
    stand_in, raw = scope.get(_KEY, (b"", b""))
    before, found, after = content.partition(stand_in) if stand_in else (content, b"", b"")
    return before + raw + after if found else None


_ENDED = frozenset(
    {"grant_revoked", "grant_expired", "grant_consumed", "grant_invalid", "package_revoked"}
)
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    413: "request_entity_too_large_error",
}
RETRY_SECONDS = "2"
_JSON = b"application/json"
_PRIVATE = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON error body with its status."""

    status: int
    body: dict[str, Any]
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def plain_error(cls, status: int, code: str, message: str) -> Self:
        """An error of the transport, in the shape that REST gives its own."""
        kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
        return cls(status, {"error": {"type": kind, "code": code, "message": message}})

    def with_header(self, name: str, value: str) -> "Answer":
        """The same answer with one more header."""
        return Answer(self.status, self.body, (*self.headers, (name, value)))

    async def send(self, send: Send) -> None:
        """Send it whole."""
        content = dumps(self.body).encode()
        headers = [(name.encode(), value.encode("latin-1")) for name, value in self.headers]
        headers += [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            *_PRIVATE,
        ]
        start = {"type": "http.response.start", "status": self.status, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": content})


def unauthorized(refused: Refused, *, metadata_url: str, scope: str, token_sent: bool) -> Answer:
    """What a refused bearer gets.

    A grant that has ended answers 401 here, so that a host signs in again (design decision 12);
    REST answers 403 for the same. `error=` stands only where a token was sent (RFC 6750, 3.1).
    """
    status = 401 if refused.error.get("code") in _ENDED else refused.status
    error = dict(refused.error)
    if status != 401:
        answer = Answer(status, {"error": error})
        return answer.with_header("retry-after", RETRY_SECONDS) if status == 503 else answer
    error.setdefault("resource_metadata", metadata_url)
    error.setdefault("next_step", "Read the metadata document, then obtain a scoped grant.")
    challenge = f'Bearer resource_metadata="{metadata_url}", scope="{scope}"'
    if token_sent:
        challenge += ', error="invalid_token"'
    return Answer(status, {"error": error}, (("www-authenticate", challenge),))


class Utf8Sender:
    """Passes the SDK's answer on as UTF-8 that is not to be cached.

    The SDK's modern leg escapes every non-ASCII character, up to six bytes for three; and a few of
    its refusals are plain text, which become the JSON error of every other refusal here.
    """

    def __init__(self, send: Send, scope: Scope) -> None:
        self._send = send
        self._scope = scope
        self._start: Message = {}
        self._parts: list[bytes] = []

    async def __call__(self, message: Message) -> None:
        """Hold the answer until it is whole; JSON mode sends no streams."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        self._parts.append(message.get("body", b""))
        if message.get("more_body", False):
            return
        content = b"".join(self._parts)
        ours = restored(content, self._scope)
        content, kind = (ours, _JSON) if ours is not None else _rewritten(content, self._start)
        headers = [
            (name, value)
            for name, value in self._start["headers"]
            if name not in {b"content-length", b"content-type", b"cache-control"}
        ]
        headers += [(b"content-length", str(len(content)).encode()), *_PRIVATE]
        if content:
            headers.append((b"content-type", kind))
        await self._send({**self._start, "headers": headers})
        await self._send({"type": "http.response.body", "body": content})


def _rewritten(content: bytes, start: Message) -> tuple[bytes, bytes]:
    kind = dict(start["headers"]).get(b"content-type", b"")
    if kind.startswith(b"application/json"):
        if start["status"] == 400:
            content = _worded(content)
        # Without an escape there is nothing to rewrite, and only the modern leg writes any.
        return (_utf8(content) if b"\\u" in content else content), b"application/json"
    if start["status"] < 400:
        return content, kind
    message = content.decode(errors="replace") or "The request was refused."
    body = Answer.plain_error(start["status"], "invalid_request", message).body
    return dumps(body).encode(), b"application/json"


def _worded(content: bytes) -> bytes:
    """The refusal of a malformed envelope without the validator's own words and addresses."""
    if b"Validation error" not in content:
        return content
    body = orjson.loads(content)
    body["error"]["message"] = "The body is not a JSON-RPC request or notification"
    return orjson.dumps(body)


def _utf8(content: bytes) -> bytes:
    try:
        return dumps(orjson.loads(content)).encode()
    except orjson.JSONDecodeError:
        # A lone surrogate, which UTF-8 cannot carry: the escaped form is the only true one.
        return content
