"""The one door: how the adapter reaches the resource server, in-process or over HTTP.

`Rest` is the protocol; `mcp_adapter.inprocess` is its in-process form and `HttpRest` its HTTP one.
There is no third way in, and no argument that skips a check.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

import httpx2
import orjson

Params: TypeAlias = Sequence[tuple[str, str]]
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """What the resource server answered; `body` is bytes where it is not a JSON object."""

    status: int
    body: dict[str, Any] | bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Rest(Protocol):
    """The REST evidence API, used on somebody's authority."""

    def get(
        self,
        path: str,
        params: Params,
        authority: object,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> RestAnswer:
        """Answer `GET path?params`. Synchronous: it is called in a worker thread."""
        ...

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, authority: object
    ) -> RestAnswer:
        """Answer a request that changes something, with a JSON body or none. Synchronous too."""
        ...


class Refused(Exception):  # noqa: N818 - named for what happened, as all refusals
    """The bearer was refused; `error` is the `error` member of the answer's body."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        self.status = status
        self.error = error
        super().__init__(str(error.get("code", status)))


Authenticate: TypeAlias = Callable[[str | None], object]
"""Bearer (None where none was sent) -> an opaque authority; raises `Refused`."""


def segment(text: str) -> str:
    """One path segment. Dots alone are encoded too, so that no client folds them away."""
    return quote(text, safe="") if text.strip(".") else text.replace(".", "%2E")


class HttpRest:
    """The API of a remote provider; the authority is the bearer itself."""

    def __init__(self, provider_url: str, *, client: httpx2.Client | None = None) -> None:
        self._given = client
        self._origin = provider_url.rstrip("/")

    @cached_property
    def _client(self) -> httpx2.Client:
        """Opened with the first request: loading the certificates takes longer than a handshake
        may, when a host starts the process and waits for its first answer."""
        # Redirects are not followed: the bearer goes to the provider and nowhere else.
        return self._given or httpx2.Client(timeout=30.0, follow_redirects=False)

    def get(
        self,
        path: str,
        params: Params,
        authority: object,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> RestAnswer:
        """An unreachable provider answers 503 in the shape of every other error."""
        return self._answer("GET", path, authority, headers=headers, params=list(params))

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, authority: object
    ) -> RestAnswer:
        """As `get`; a refusal to be reached leaves open whether the provider has done it."""
        return self._answer(method, path, authority, headers=NO_HEADERS, json=body)

    def _answer(
        self,
        method: str,
        path: str,
        authority: object,
        *,
        headers: Mapping[str, str],
        **more: Any,
    ) -> RestAnswer:
        sent = {**headers, "Authorization": f"Bearer {authority}"}
        try:
            response = self._client.request(method, f"{self._origin}{path}", headers=sent, **more)
        except httpx2.HTTPError:
            return RestAnswer(503, _unreachable())
        return RestAnswer(response.status_code, _body(response.content), {**response.headers})


def _body(content: bytes) -> dict[str, Any] | bytes:
    try:
        decoded = orjson.loads(content)
    except orjson.JSONDecodeError:
        return content
    return decoded if isinstance(decoded, dict) else content


def _unreachable() -> dict[str, Any]:
    return {
        "error": {
            "type": "api_error",
            "code": "service_unavailable",
            "message": "The provider cannot be reached.",
            "next_step": "Call the tool again in a moment.",
        }
    }
