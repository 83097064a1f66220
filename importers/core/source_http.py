"""Speak HTTP to the server of an account, over sockets that the server of this installation connected.

The credential goes to the host of the account's address and to no other: redirects to another host
end the run.
"""

import http.client
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Self
from urllib.parse import quote, urljoin, urlsplit

from typing_extensions import override

from importers.core.source import Network, ProblemCode, SourceError

HTTPS_PORT = 443
MAX_REDIRECTS = 5
REDIRECTS = frozenset((301, 302, 303, 307, 308))
URL_CHARACTERS = "%/:=&?~#+!$,;'@()*[]"
"""Characters of a URL that stay as they are."""


class TooLargeError(Exception):
    """The server sent more than was allowed."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response. ``url`` is its address after redirects."""

    status: int
    headers: Message
    body: bytes
    url: str


def url_address(url: str) -> tuple[str, int]:
    """Return host and port of a https address. Raises ``ValueError`` if it is none."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.username is not None:
        raise ValueError("not an https address")
    if not parts.hostname.isascii():
        raise ValueError("the name of the host has other characters than ASCII")
    return parts.hostname, HTTPS_PORT if parts.port is None else parts.port


def basic_authorization(user: str, password: str) -> dict[str, str]:
    """Return the header that signs in, or none without a user."""
    if not user:
        return {}
    return {"Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


class HttpClient:
    """Sends requests to one host over one connection, which is opened again where it was closed."""

    def __init__(
        self, network: Network, url: str, authorization: Mapping[str, str] | None = None
    ) -> None:
        self._address = url_address(url)
        self._headers = {
            "User-Agent": "pdpp",
            "Accept-Encoding": "identity",
            **(authorization or {}),
        }
        self._connection = _Connection(network, *self._address)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        max_bytes: int,
    ) -> HttpResponse:
        """Send an idempotent request, and follow redirects within the host.

        Raises ``SourceError`` for a redirect to another host, and ``TooLargeError``.
        """
        for _ in range(MAX_REDIRECTS + 1):
            response = self._send(
                method, url, {**self._headers, **(headers or {})}, body, max_bytes
            )
            location = response.headers.get("Location")
            if response.status not in REDIRECTS or not location:
                return response
            url = self.resolve(url, location)
        raise SourceError(ProblemCode.SERVER_REFUSED, "too many redirects")

    def resolve(self, base: str, reference: str) -> str:
        """Return the address of a reference in a response. Raises ``SourceError`` on another host."""
        url = quote(urljoin(base, reference), safe=URL_CHARACTERS)
        try:
            address = url_address(url)
        except ValueError:
            raise SourceError(ProblemCode.MOVED, urlsplit(url).netloc[:200]) from None
        if address != self._address:
            raise SourceError(ProblemCode.MOVED, address[0][:200])
        return url

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, max_bytes: int
    ) -> HttpResponse:
        """Send once more if the server has closed a connection that was open."""
        is_open = self._connection.sock is not None
        try:
            return self._exchange(method, url, headers, body, max_bytes)
        except (ConnectionError, ssl.SSLEOFError):
            self._connection.close()
            if not is_open:
                raise
        return self._exchange(method, url, headers, body, max_bytes)

    def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, max_bytes: int
    ) -> HttpResponse:
        parts = urlsplit(url)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        self._connection.request(method, quote(target, safe=URL_CHARACTERS), body, dict(headers))
        response = self._connection.getresponse()
        content = response.read(max_bytes + 1)
        if len(content) > max_bytes:
            self._connection.close()
            raise TooLargeError
        if response.length:  # http.client does not notice this where it reads at most so much
            self._connection.close()
            raise SourceError(ProblemCode.CONNECTION_LOST)
        return HttpResponse(response.status, response.headers, content, url)


class _Connection(http.client.HTTPConnection):
    default_port = HTTPS_PORT

    def __init__(self, network: Network, host: str, port: int) -> None:
        super().__init__(host, port)
        self._network = network

    @override
    def connect(self) -> None:
        self.sock = self._network.connect(self.host, self.port)


def require_success(response: HttpResponse) -> None:
    """Raise ``SourceError`` for a status that is not 2xx or 304."""
    if 200 <= response.status < 300 or response.status == 304:
        return
    if response.status == 401:
        raise SourceError(ProblemCode.PASSWORD_REFUSED)
    if response.status in (404, 410):
        raise SourceError(ProblemCode.NOT_FOUND)
    raise SourceError(ProblemCode.SERVER_REFUSED, f"HTTP {response.status}")
