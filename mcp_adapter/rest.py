"""The REST client interface of the adapter, and its implementation over HTTP.

`mcp_adapter.inprocess` implements the same interface without a socket. The adapter reads records
in no other way.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

import httpx2
import orjson

from evidence import limits
from evidence.parameters import EXTENSIONS

METADATA_PATH = "/.well-known/oauth-protected-resource"
BLOBS_PATH = "/v1/blobs/"
Params: TypeAlias = Sequence[tuple[str, str]]
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class RestResponse(NamedTuple):
    """A response of the REST API; `body` is bytes unless it is a JSON object."""

    status: int
    body: dict[str, Any] | bytes
    headers: Mapping[str, str] = NO_HEADERS


class Rest(Protocol):
    """The REST API, called on the authority of a bearer. Methods block: call them in a thread."""

    @property
    def has_pages(self) -> bool:
        """Whether the server shows its owner a page for each record."""
        ...

    def get(
        self,
        path: str,
        params: Params,
        authority: object,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> RestResponse:
        """Return the response to `GET path?params`."""
        ...

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, authority: object
    ) -> RestResponse:
        """Return the response to a request that writes, with a JSON body or none."""
        ...


class TokenRejected(Exception):  # noqa: N818 - named like the exceptions of the REST API
    """The bearer was rejected; `error` is the `error` member of the response body.

    `record` stores the refusal for the owner. Call it when a request is refused.
    """

    def __init__(
        self, status: int, error: dict[str, Any], *, record: Callable[[], None] = lambda: None
    ) -> None:
        self.status = status
        self.error = error
        self.record = record
        super().__init__(str(error.get("code", status)))


Authenticate: TypeAlias = Callable[[str | None], object]
"""Maps a bearer, or None if none was sent, to an opaque authority; raises `TokenRejected`."""


class HttpRest:
    """The REST API of a remote server; the authority is the bearer itself.

    Parameters that the contract does not have are sent only to a server whose metadata offers them. A
    call that means something else without them is refused.
    """

    def __init__(self, provider_url: str, *, client: httpx2.Client | None = None) -> None:
        self._injected_client = client
        self._origin = provider_url.rstrip("/")
        self._extensions: frozenset[str] | None = None

    @cached_property
    def _client(self) -> httpx2.Client:
        # Created with the first request: loading certificates would delay the MCP handshake.
        # Redirects are not followed, so that the bearer reaches no other server.
        return self._injected_client or httpx2.Client(timeout=30.0, follow_redirects=False)

    def get(
        self,
        path: str,
        params: Params,
        authority: object,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> RestResponse:
        """Return the response, or a 503 response if the server is unreachable."""
        beyond = {name for name, _value in params if name in EXTENSIONS}
        missing = beyond - self._offered() if beyond else beyond
        if refused := sorted(missing & limits.SELECTING_PARAMETERS):
            is_known = self._extensions is not None
            return RestResponse(400, _unsupported(refused[0])) if is_known else _unreachable()
        repeated = [
            (name, part)
            for name, value in params
            if name not in missing
            for part in (value.split(",") if name == "fields" else [value])
        ]
        return self._request("GET", path, authority, headers=headers, params=repeated)

    @property
    def has_pages(self) -> bool:
        """Whether the server is of this project, which its extensions tell."""
        return bool(self._offered())

    def _offered(self) -> frozenset[str]:
        """Return the parameters beyond the contract that the server offers, asked once."""
        if self._extensions is None:
            try:
                response = self._client.get(f"{self._origin}{METADATA_PATH}")
            except httpx2.HTTPError:
                return frozenset()  # asked again with the next request
            if response.is_server_error:
                return frozenset()
            metadata = _parse_body(response.content)
            offered = metadata.get(limits.EXTENSIONS_MEMBER) if isinstance(metadata, dict) else None
            names = offered if isinstance(offered, list) else []
            self._extensions = frozenset(name for name in names if isinstance(name, str))
        return self._extensions

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None, authority: object
    ) -> RestResponse:
        """Return the response, or 503. After a 503 the server may still have done the write."""
        return self._request(method, path, authority, headers=NO_HEADERS, json=body)

    def _request(
        self,
        method: str,
        path: str,
        authority: object,
        *,
        headers: Mapping[str, str],
        **options: Any,
    ) -> RestResponse:
        headers = {**headers, "Authorization": f"Bearer {authority}"}
        url = f"{self._origin}{path}"
        try:
            response = self._client.request(method, url, headers=headers, **options)
        except httpx2.HTTPError:
            return _unreachable()
        is_blob = path.startswith(BLOBS_PATH) and response.is_success
        body = response.content if is_blob else _parse_body(response.content)
        return RestResponse(response.status_code, body, {**response.headers})


def _parse_body(content: bytes) -> dict[str, Any] | bytes:
    try:
        decoded = orjson.loads(content)
    except orjson.JSONDecodeError:
        return content
    return _normalize(decoded) if isinstance(decoded, dict) else content


_OPTIONAL = frozenset(
    {"data", "evidence_excerpts", "expanded", "links", "meta", "snippet", "shared", "connections"}
)


def _normalize(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body of another PDPP server without optional members that are null."""
    if isinstance(body.get("data"), list):
        items = [_normalize_item(item) for item in body["data"] if isinstance(item, dict)]
        body = {**body, "data": items}
    if isinstance(body.get("meta"), dict):
        meta = body["meta"]
        body = {**body, "meta": {name: meta[name] for name in meta if meta[name] is not None}}
    return _without_null(body)


def _normalize_item(item: dict[str, Any]) -> dict[str, Any]:
    """Return a record or hit without null members and without evidence that names no field."""
    if not isinstance(item.get("snippet", {}), dict):
        item = {**item, "snippet": None}
    if "evidence_excerpts" in item:
        excerpts = item["evidence_excerpts"] or []
        named = [each for each in excerpts if isinstance(each, dict) and each.get("field_path")]
        item = {**item, "evidence_excerpts": named}
    return _without_null(item)


def _without_null(item: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in item.items() if value is not None or name not in _OPTIONAL
    }


def _unreachable() -> RestResponse:
    error = {
        "type": "api_error",
        "code": "service_unavailable",
        "message": "The provider cannot be reached.",
        "next_step": "Call the tool again in a moment.",
    }
    return RestResponse(503, {"error": error})


def _unsupported(name: str) -> dict[str, Any]:
    error = {
        "type": "invalid_request_error",
        "code": "unsupported_parameter",
        "message": f"This server does not know {name}, and would answer without it.",
        "param": name,
        "next_step": f"Call again without {name}, and select from the answer.",
    }
    return {"error": error}
