"""Speak HTTP and WebDAV to the server of an account, over sockets that the server of this installation connected.

The credential goes to the host of the account's address, and to others that the owner confirmed:
redirects to another host end the run. Without encryption, no credential is sent.
"""

import http.client
import ssl
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import quote, urljoin, urlsplit
from xml.etree import ElementTree as ET

from typing_extensions import override

from importers.core.source import Network, ProblemCode, SourceError

if TYPE_CHECKING:
    from httpx2 import DigestAuth

PORTS = {"https": 443, "http": 80}
SUBSCRIPTIONS = ("webcal://", "webcals://", "feed://")
"""Links that a program subscribes to; they mean https."""

MAX_REDIRECTS = 5
REDIRECTS = frozenset((301, 302, 303, 307, 308))
URL_CHARACTERS = "%/:=&?~#+!$,;'@()*[]"
"""Characters of a URL that stay as they are."""


CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem",
)  # fmt: skip
DAV = "{DAV:}"
MULTISTATUS = 207
LISTING_MAX_BYTES = 16 * 1024 * 1024
XML_HEADERS = {"Content-Type": "application/xml; charset=utf-8"}


class TooLargeError(Exception):
    """The server sent more than was allowed."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response. ``url`` is its address after redirects."""

    status: int
    headers: Message
    body: bytes
    url: str


class Origin(NamedTuple):
    """Where a request goes."""

    scheme: str
    host: str
    port: int

    @override
    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port != PORTS["https"] else self.host


def tls_context() -> ssl.SSLContext:
    """Return a context that verifies certificates. It must load them before confinement."""
    context = ssl.create_default_context()
    for path in (ssl.get_default_verify_paths().cafile, *CERTIFICATES):
        if path is not None and Path(path).is_file():
            context.load_verify_locations(cafile=path)
            break
    return context


def parse_url(url: str) -> tuple[str, Origin]:
    """Return an address as https or http, and its origin. Raises ``ValueError`` if it is neither."""
    for scheme in SUBSCRIPTIONS:
        if url.lower().startswith(scheme):
            url = f"https://{url[len(scheme) :]}"
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname or parts.username is not None:
        raise ValueError("not an https address")
    if not parts.hostname.isascii():
        raise ValueError("the name of the host has other characters than ASCII")
    port = PORTS[parts.scheme] if parts.port is None else parts.port
    return url, Origin(parts.scheme, parts.hostname, port)


def basic_authorization(user: str, password: str) -> dict[str, str]:
    """Return the header that signs in, or none without a user."""
    if not user:
        return {}
    return {"Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


class HttpClient:
    """Sends requests over one connection to each host, opened again where it was closed.

    ``hosts`` are the others that the owner confirmed.
    """

    def __init__(
        self,
        network: Network,
        url: str,
        authorization: Mapping[str, str] | None = None,
        hosts: Iterable[tuple[str, int]] = (),
    ) -> None:
        self.url, origin = parse_url(url)
        if authorization and origin.scheme != "https":
            raise SourceError(ProblemCode.NO_TLS)
        self._headers = {
            "User-Agent": "pdpp",
            "Accept-Encoding": "identity",
            **(authorization or {}),
        }
        origins = {origin, *(Origin("https", host, port) for host, port in hosts)}
        self._connections = {each: _Connection(network, each) for each in origins}
        self._digests: dict[Origin, DigestAuth] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for each in self._connections.values():
            each.close()

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        max_bytes: int,
    ) -> HttpResponse:
        """Send an idempotent request, and follow redirects within the confirmed hosts.

        Raises ``SourceError`` for a redirect to another host, and ``TooLargeError``.
        """
        for _ in range(MAX_REDIRECTS + 1):
            response = self._sign_and_send(
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
            url, origin = parse_url(url)
        except ValueError:
            raise SourceError(ProblemCode.MOVED, urlsplit(url).netloc[:200]) from None
        if origin not in self._connections:
            raise SourceError(ProblemCode.MOVED, str(origin)[:200])
        return url

    def _sign_and_send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, max_bytes: int
    ) -> HttpResponse:
        """Send with Digest (RFC 7616) where the server takes no password, and again as it asks."""
        origin = parse_url(url)[1]
        digest, response = self._digests.get(origin), None
        if digest is None:
            response = self._send(method, url, headers, body, max_bytes)
            if not _wants_digest(response) or "Authorization" not in headers:
                return response
        import httpx2  # takes memory, and few servers ask for it

        if digest is None:
            user, _, password = b64decode(headers["Authorization"].split()[1]).partition(b":")
            digest = self._digests[origin] = httpx2.DigestAuth(user, password)
        request = httpx2.Request(method, httpx2.URL(url, raw_path=_target(url).encode()))
        flow = digest.auth_flow(request)
        next(flow)
        if response is None:
            headers = {**headers, "Authorization": request.headers["Authorization"]}
            response = self._send(method, url, headers, body, max_bytes)
        try:
            flow.send(httpx2.Response(response.status, headers=response.headers.items()))
        except StopIteration:
            return response
        except (httpx2.ProtocolError, NotImplementedError, ValueError):
            raise SourceError(ProblemCode.SERVER_REFUSED, "Digest authentication") from None
        headers = {**headers, "Authorization": request.headers["Authorization"]}
        return self._send(method, url, headers, body, max_bytes)

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, max_bytes: int
    ) -> HttpResponse:
        """Send once more if the server has closed a connection that was open."""
        connection = self._connections[parse_url(url)[1]]
        is_open = connection.sock is not None
        try:
            return connection.exchange(method, url, headers, body, max_bytes)
        except (ConnectionError, ssl.SSLEOFError):
            connection.close()
            if not is_open:
                raise
        return connection.exchange(method, url, headers, body, max_bytes)


class _Connection(http.client.HTTPConnection):
    def __init__(self, network: Network, origin: Origin) -> None:
        self.default_port = PORTS[origin.scheme]
        super().__init__(origin.host, origin.port)
        self._network = network
        self._is_encrypted = origin.scheme == "https"

    @override
    def connect(self) -> None:
        is_encrypted = self._is_encrypted
        self.sock = self._network.connect(self.host, self.port, is_encrypted=is_encrypted)

    def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, max_bytes: int
    ) -> HttpResponse:
        self.request(method, _target(url), body, dict(headers))
        response = self.getresponse()
        content = response.read(max_bytes + 1)
        if len(content) > max_bytes:
            self.close()
            raise TooLargeError
        if response.length:  # http.client does not notice this where it reads at most so much
            self.close()
            raise SourceError(ProblemCode.CONNECTION_LOST)
        return HttpResponse(response.status, response.headers, content, url)


def _target(url: str) -> str:
    parts = urlsplit(url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return quote(target, safe=URL_CHARACTERS)


def _wants_digest(response: HttpResponse) -> bool:
    challenges = [each.lower() for each in response.headers.get_all("WWW-Authenticate", ())]
    schemes = {each.partition(" ")[0] for each in challenges}
    return response.status == 401 and "digest" in schemes and "basic" not in schemes


def require_success(response: HttpResponse) -> None:
    """Raise ``SourceError`` for a status that is not 2xx or 304."""
    if 200 <= response.status < 300 or response.status == 304:
        return
    if response.status == 401:
        raise SourceError(ProblemCode.PASSWORD_REFUSED)
    if response.status in (404, 410):
        raise SourceError(ProblemCode.NOT_FOUND)
    raise SourceError(ProblemCode.SERVER_REFUSED, f"HTTP {response.status}")


@dataclass(frozen=True, slots=True)
class Resource:
    """A file or collection on the server, with the properties that it has by qualified name."""

    url: str
    properties: Mapping[str, ET.Element]
    status: int = 200

    @property
    def is_collection(self) -> bool:
        kind = self.properties.get(f"{DAV}resourcetype")
        return kind is not None and kind.find(f"{DAV}collection") is not None

    def text(self, name: str) -> str:
        """Return the text of a property, or "" without it."""
        found = self.properties.get(name)
        return "" if found is None else (found.text or "").strip()


def list_resources(
    client: HttpClient, url: str, names: Sequence[str], *, depth: int
) -> list[Resource]:
    """Return a resource and, with a depth of 1, what is directly in it. Raises ``SourceError``."""
    root = ET.Element(f"{DAV}propfind")
    wanted = ET.SubElement(root, f"{DAV}prop")
    for name in names:
        ET.SubElement(wanted, name)
    try:
        response = client.request(
            "PROPFIND",
            url,
            headers={**XML_HEADERS, "Depth": str(depth)},
            body=ET.tostring(root, encoding="utf-8", xml_declaration=True),
            max_bytes=LISTING_MAX_BYTES,
        )
    except TooLargeError:
        raise SourceError(ProblemCode.WRONG_CONTENT, "a folder with too many files") from None
    require_success(response)
    return parse_multistatus(client, response).resources


class Multistatus(NamedTuple):
    """The resources of a response, and its sync token if it has one (RFC 6578)."""

    resources: list[Resource]
    token: str


def parse_multistatus(client: HttpClient, response: HttpResponse) -> Multistatus:
    """Return the resources of a response. Raises ``SourceError``."""
    if response.status != MULTISTATUS or b"<!DOCTYPE" in response.body:
        raise SourceError(ProblemCode.WRONG_CONTENT, "no WebDAV")
    try:
        root = ET.fromstring(response.body)  # noqa: S314 - without a document type there are no entities
    except ET.ParseError:
        raise SourceError(ProblemCode.WRONG_CONTENT, "no WebDAV") from None
    resources = [
        Resource(client.resolve(response.url, href), _properties(each), _status(each))
        for each in root.findall(f"{DAV}response")
        if (href := (each.findtext(f"{DAV}href") or "").strip())
    ]
    return Multistatus(resources, (root.findtext(f"{DAV}sync-token") or "").strip())


def _status(response: ET.Element) -> int:
    """Return the status of a resource, which is its own only if the resource has no properties."""
    written = (response.findtext(f"{DAV}status") or "").split()
    return int(written[1]) if len(written) > 1 and written[1].isdecimal() else 200


def _properties(response: ET.Element) -> dict[str, ET.Element]:
    """Return the properties that the server found."""
    return {
        each.tag: each
        for found in response.findall(f"{DAV}propstat")
        if " 200 " in f"{found.findtext(f'{DAV}status')} "
        for each in found.findall(f"{DAV}prop/*")
    }
