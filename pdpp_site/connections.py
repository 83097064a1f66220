"""Limits and deadlines of client connections, which uvicorn itself does not have.

uvicorn closes idle keep-alive connections. It sets no deadline for a request header or for a client
that reads nothing, no limit on header size, and no limit per client address.
"""

import ipaddress
import resource
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from typing_extensions import override
from uvicorn.middleware.proxy_headers import _TrustedHosts
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from evidence.errors import ServiceUnavailable

HEADER_SECONDS = 10.0
"""From the first byte, or from the connection, to the end of the header."""
HEADER_BYTES = 64 * 1024
PIPELINED_REQUESTS = 16
KEEP_ALIVE_SECONDS = 75
"""Longer than common proxies keep idle connections, so that we never close one in use."""
UNREAD_BODY_SECONDS = 5.0
"""How long the rest of a body may take that nobody reads, because it was answered before."""
STALLED_SECONDS = 60.0
"""How long a client may take to read what fills the buffer of its connection."""
MOST_FILES = 65_536
IPV6_NETWORK_BITS = 64
"""One IPv6 customer has at least this network, so it counts as one client."""


class HeaderTooLargeError(Exception):
    """Ends the parsing of a request."""


class ClientConnection(HttpToolsProtocol):
    """One connection, with deadlines for what its client has to do."""

    def __init__(self, *, table: "ConnectionTable", **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._table = table
        self._header_bytes = self._parsed_bytes = 0
        self._has_begun = self._began_now = False
        self._stalled_since: float | None = None
        self._closing_since: float | None = None
        self._receiving: str | None = "header"
        self.address = ""
        self.since = 0.0
        """When the client began its header or, where it is idle, when it was last answered."""

    @property
    def is_evictable(self) -> bool:
        """Return whether no request would be lost with this connection."""
        is_serving = self.cycle is not None and not self.cycle.response_complete
        return not is_serving and not self.pipeline and not self.transport.is_closing()

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.since = self.loop.time()
        self.address = self.client[0] if self.client else ""
        if not self._table.admit(self):
            self._refuse(503, "Too many connections. Try again shortly.")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._began_now = False
        super().data_received(data)
        if self._receiving == "header" and not self._began_now:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES and not self.transport.is_closing():
                self._refuse(431, "The request header is too large.")

    @override
    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED_REQUESTS:
            raise HeaderTooLargeError
        self._receiving, self.since = "header", self.loop.time()
        self._has_begun = self._began_now = True
        self._header_bytes = self._parsed_bytes = 0
        super().on_message_begin()

    @override
    def on_url(self, url: bytes) -> None:
        self._count_parsed(url)
        super().on_url(url)

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_parsed(name + value)
        super().on_header(name, value)

    def _count_parsed(self, part: bytes) -> None:
        """Raise HeaderTooLargeError where a single read brought more than HEADER_BYTES."""
        self._parsed_bytes += len(part)
        if self._parsed_bytes > HEADER_BYTES:
            raise HeaderTooLargeError

    @override
    def on_headers_complete(self) -> None:
        self._receiving = "body"
        super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        self._receiving = None
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        super().on_response_complete()

    @override
    def pause_writing(self) -> None:
        self._stalled_since = self.loop.time()
        super().pause_writing()

    @override
    def resume_writing(self) -> None:
        self._stalled_since = None
        super().resume_writing()

    def close_if_late(self, now: float) -> None:
        """Close the connection of a client that has missed a deadline."""
        if self.transport.is_closing():
            self._closing_since = self._closing_since or now
            if now - self._closing_since > STALLED_SECONDS:
                self.transport.abort()
        elif self._stalled_since is not None and now - self._stalled_since > STALLED_SECONDS:
            self.transport.abort()
        elif self.is_evictable and now - self.since > self._idle_seconds:
            if self._receiving == "header" and self._has_begun:
                self._refuse(408, "The request header did not arrive in time.")
            else:
                self.transport.close()

    @property
    def _idle_seconds(self) -> float:
        if self._receiving == "header":
            return HEADER_SECONDS
        return UNREAD_BODY_SECONDS if self._receiving == "body" else KEEP_ALIVE_SECONDS

    def _refuse(self, status: int, message: str) -> None:
        head = [
            STATUS_LINE[status],
            b"content-type: text/plain; charset=utf-8\r\n",
            f"content-length: {len(message)}\r\n".encode(),
            b"retry-after: 5\r\n" if status == 503 else b"",
            b"connection: close\r\n\r\n",
        ]
        self.transport.write(b"".join([*head, message.encode()]))
        self.transport.close()


class ConnectionTable:
    """The open connections of a server. For its event loop alone.

    At a limit, the connection that has been idle longest makes room for a new one. Addresses of
    trusted proxies have no limit of their own: RunningRequests limits the clients that they name.
    """

    def __init__(self, *, most: int, most_per_client: int, proxies: list[str]) -> None:
        self._most, self._most_per_client = most, most_per_client
        self._proxies = _TrustedHosts(proxies)
        self._open: dict[ClientConnection, None] = {}
        self._by_client: dict[str, dict[ClientConnection, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: ClientConnection) -> bool:
        """Count a new connection. Return False if there is no room for it."""
        client = client_of(connection.address)
        theirs = self._by_client.get(client, {})
        if connection.address not in self._proxies and len(theirs) >= self._most_per_client:
            if not self._evict_idlest(theirs):
                return False
        elif len(self._open) >= self._most and not self._evict_idlest(self._open):
            return False
        self._open[connection] = None
        self._by_client[client][connection] = None
        return True

    def remove(self, connection: ClientConnection) -> None:
        client = client_of(connection.address)
        self._open.pop(connection, None)
        theirs = self._by_client.get(client)
        if theirs is not None:
            theirs.pop(connection, None)
            if not theirs:
                del self._by_client[client]

    def close_late(self, now: float) -> None:
        for connection in list(self._open):
            connection.close_if_late(now)

    def _evict_idlest(self, connections: dict[ClientConnection, None]) -> bool:
        idle = (each for each in connections if each.is_evictable)
        idlest = min(idle, key=lambda each: each.since, default=None)
        if idlest is None:
            return False
        self.remove(idlest)
        idlest.transport.abort()
        return True


class RunningRequests:
    """The running requests of each client, whether it is a peer or named by a trusted proxy."""

    def __init__(self, *, most_per_client: int, proxies: list[str]) -> None:
        self._most_per_client = most_per_client
        self._proxies = _TrustedHosts(proxies)
        self._running: dict[str, int] = defaultdict(int)

    @contextmanager
    def of(self, address: str) -> Iterator[None]:
        """Count a request while it runs. Raises ServiceUnavailable if its client runs too many."""
        if not address or address in self._proxies:
            yield
            return
        client = client_of(address)
        if self._running[client] >= self._most_per_client:
            raise ServiceUnavailable(
                message="Too many requests of this client run here. Try again shortly."
            )
        self._running[client] += 1
        try:
            yield
        finally:
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client]


def client_of(address: str) -> str:
    """Return who counts as one client: an IPv4 address, or a /64 network of IPv6."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_NETWORK_BITS), strict=False))


def raise_file_limit() -> int:
    """Raise the limit of open files as far as the system allows; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft
