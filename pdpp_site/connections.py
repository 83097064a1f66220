"""Limits and deadlines of client connections, which uvicorn itself does not have.

uvicorn closes idle keep-alive connections. It sets no deadline for a request header or for a client
that reads nothing, no limit on header size, and no limit per client address.
"""

import ipaddress
import resource
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

from typing_extensions import override
from uvicorn.middleware.proxy_headers import _TrustedHosts
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from evidence.errors import ServiceUnavailable

HEADER_SECONDS = 10.0
"""Time from the connection, or from the first byte, to the end of the header."""
HEADER_BYTES = 64 * 1024
MAX_PIPELINED_REQUESTS = 16
KEEP_ALIVE_SECONDS = 75
"""Longer than common proxies keep idle connections, so that we never close one that a proxy uses."""
UNREAD_BODY_SECONDS = 5.0
"""Time for the rest of a request body that was answered before it was read."""
STALLED_SECONDS = 60.0
"""Time for a client to read from a full send buffer."""
MAX_OPEN_FILES = 65_536
PROXY_USER_KEY = "pdpp.proxy_user"
"""Member of the ASGI scope with the values of PDPP_PROXY_USER_HEADER that a listed peer sent."""
IPV6_NETWORK_BITS = 64
"""An IPv6 customer has at least a /64 network, so the network counts as one client."""


class HeaderTooLargeError(Exception):
    """Raised to stop parsing a request."""


class ClientConnection(HttpToolsProtocol):
    """A client connection with deadlines."""

    def __init__(self, *, table: "ConnectionTable", **protocol_options: Any) -> None:
        super().__init__(**protocol_options)
        self._table = table
        self._header_bytes = self._parsed_bytes = 0
        self._has_begun = self._began_now = False
        self._stalled_since: float | None = None
        self._closing_since: float | None = None
        self._receiving: str | None = "header"
        self.address = ""
        self.since = 0.0
        """Start of the current header, or end of the last response on an idle connection."""

    @property
    def is_evictable(self) -> bool:
        """Return whether closing the connection loses no request."""
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
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:
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
        if self._receiving != "header":
            return  # a trailer field, which proxies do not check as they check the header
        if self._table.names_owner(name):
            if self._table.may_name_owner(self.address):
                # Proxies pass on the Remote_User of a client beside, or instead of, their own header.
                user = b"" if b"_" in name else value
                cast("dict[str, Any]", self.scope).setdefault(PROXY_USER_KEY, []).append(user)
            return
        super().on_header(name, value)

    def _count_parsed(self, part: bytes) -> None:
        """Raise HeaderTooLargeError when one read has more than HEADER_BYTES."""
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
    """The open connections of a server. Not thread-safe.

    At a limit, the connection that has been idle longest makes room for a new one. Addresses of
    trusted proxies have no limit of their own: RunningRequests limits the clients that they name.
    """

    def __init__(
        self,
        *,
        max_connections: int,
        max_per_client: int,
        proxies: list[str],
        user_header: str = "",
        user_peers: Sequence[str] = (),
    ) -> None:
        self._max_connections, self._max_per_client = max_connections, max_per_client
        self._proxies = _TrustedHosts(proxies)
        self._user_header = user_header.encode()
        self._user_peers = _TrustedHosts(list(user_peers))
        self._open: dict[ClientConnection, None] = {}
        self._by_client: dict[str, dict[ClientConnection, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: ClientConnection) -> bool:
        """Count a new connection. Return False if there is no room for it."""
        client = client_key(connection.address)
        same_client = self._by_client.get(client, {})
        if connection.address not in self._proxies and len(same_client) >= self._max_per_client:
            if not self._evict_idlest(same_client):
                return False
        elif len(self._open) >= self._max_connections and not self._evict_idlest(self._open):
            return False
        self._open[connection] = None
        self._by_client[client][connection] = None
        return True

    def remove(self, connection: ClientConnection) -> None:
        client = client_key(connection.address)
        self._open.pop(connection, None)
        same_client = self._by_client.get(client)
        if same_client is not None:
            same_client.pop(connection, None)
            if not same_client:
                del self._by_client[client]

    def names_owner(self, header: bytes) -> bool:
        """Return whether this is the header in which a proxy names the signed-in owner.

        Other programs read `_` as `-`, so such a name counts too.
        """
        return bool(self._user_header) and header.lower().replace(b"_", b"-") == self._user_header

    def may_name_owner(self, peer: str) -> bool:
        """Return whether a peer, by the address of its connection, is trusted to name the owner."""
        return peer in self._user_peers

    def close_late(self, now: float) -> None:
        for connection in list(self._open):
            connection.close_if_late(now)

    def _evict_idlest(self, connections: dict[ClientConnection, None]) -> bool:
        idle = (connection for connection in connections if connection.is_evictable)
        idlest = min(idle, key=lambda connection: connection.since, default=None)
        if idlest is None:
            return False
        self.remove(idlest)
        idlest.transport.abort()
        return True


class RunningRequests:
    """Limits the running requests of each client, whether direct or behind a trusted proxy."""

    def __init__(self, *, max_per_client: int, proxies: list[str]) -> None:
        self._max_per_client = max_per_client
        self._proxies = _TrustedHosts(proxies)
        self._running: dict[str, int] = defaultdict(int)

    @contextmanager
    def of(self, address: str) -> Iterator[None]:
        """Count a request while it runs. Raises ServiceUnavailable if its client runs too many."""
        if not address or address in self._proxies:
            yield
            return
        client = client_key(address)
        if self._running[client] >= self._max_per_client:
            raise ServiceUnavailable(
                message="This client has too many running requests. Try again shortly."
            )
        self._running[client] += 1
        try:
            yield
        finally:
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client]


def client_key(address: str) -> str:
    """Return the key that identifies a client: an IPv4 address or an IPv6 /64 network."""
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
    target = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
            return target
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else soft
