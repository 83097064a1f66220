"""Limits and deadlines of client connections, which uvicorn itself does not have.

uvicorn closes idle keep-alive connections and refuses large headers. It sets no deadline for a request
header or for a client that reads nothing, and no limit per client address.
"""

import asyncio
import ipaddress
import resource
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from evidence.errors import ServiceUnavailable

HEADER_SECONDS = 10.0
"""Time to the end of the header: from the connection, or from the first byte after a response."""
HEADER_BYTES = 64 * 1024
KEEP_ALIVE_SECONDS = 75
"""Longer than common proxies keep idle connections, so that we never close one that a proxy uses."""
STALLED_SECONDS = 60.0
"""Time for a client to read from a full send buffer."""
MAX_OPEN_FILES = 65_536
PROXY_USER_KEY = "pdpp.proxy_user"
"""Member of the ASGI scope with the values of PDPP_PROXY_USER_HEADER that a listed peer sent."""
CONNECTION_KEY = "pdpp.connection"
"""Member of the ASGI state with the ClientConnection of a request."""
IPV6_NETWORK_BITS = 64
"""An IPv6 customer has at least a /64 network, so the network counts as one client."""

Application = Callable[[Any, Any, Any], Awaitable[None]]


class ClientConnection(asyncio.Protocol):
    """Stands before uvicorn's protocol of a connection, and ends the connection at a deadline.

    While no request runs, each byte belongs to a header or to a body that was not read, so that the
    deadline of the header ends both.
    """

    def __init__(
        self, *, table: "ConnectionTable", app_state: dict[str, Any], **options: Any
    ) -> None:
        self._http = H11Protocol(app_state={**app_state, CONNECTION_KEY: self}, **options)
        self._table = table
        self._loop = asyncio.get_running_loop()
        self._running = 0
        self._has_begun = False
        self._header_deadline: asyncio.TimerHandle | None = None
        self._stalled_deadline: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport
        self.address = ""
        self.since = 0.0
        """Start of the current header, or end of the last response on an idle connection."""

    @property
    def is_evictable(self) -> bool:
        """Return whether closing the connection loses no request."""
        return not self._running and not self.transport.is_closing()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request, whose header is complete, while it runs."""
        self._running += 1
        self._end_header_deadline()
        try:
            yield
        finally:
            self._running -= 1
            self._has_begun, self.since = False, self._loop.time()

    @override
    def connection_made(self, transport: Any) -> None:
        self.transport, self.since = transport, self._loop.time()
        self.address = (transport.get_extra_info("peername") or ("",))[0]
        self._http.connection_made(transport)
        self._begin_header_deadline()
        if not self._table.admit(self):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections. Try again shortly.")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        self._end_header_deadline()
        self.resume_writing()
        self._http.connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._running:
            self._has_begun = True
            self._begin_header_deadline()
        self._http.data_received(data)

    @override
    def eof_received(self) -> None:
        self._http.eof_received()

    @override
    def pause_writing(self) -> None:
        self._stalled_deadline = self._loop.call_later(STALLED_SECONDS, self.transport.abort)
        self._http.pause_writing()

    @override
    def resume_writing(self) -> None:
        if self._stalled_deadline is not None:
            self._stalled_deadline.cancel()
            self._stalled_deadline = None
            self._http.resume_writing()

    def _begin_header_deadline(self) -> None:
        if self._header_deadline is None:
            self.since = self._loop.time()
            self._header_deadline = self._loop.call_later(HEADER_SECONDS, self._close_late)

    def _end_header_deadline(self) -> None:
        if self._header_deadline is not None:
            self._header_deadline.cancel()
            self._header_deadline = None

    def _close_late(self) -> None:
        if self._has_begun:
            message = "The request did not arrive in time."
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, message)
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        head = [
            f"HTTP/1.1 {status} {status.phrase}",
            "content-type: text/plain; charset=utf-8",
            f"content-length: {len(message)}",
            "retry-after: 5",
            "connection: close",
        ]
        self.transport.write("\r\n".join([*head, "", message]).encode())
        self.transport.close()


def count_requests(app: Application) -> Application:
    """Return the application that tells the connection of each request while it runs."""

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        connection = scope.get("state", {}).pop(CONNECTION_KEY, None)
        if connection is None:
            await app(scope, receive, send)
            return
        with connection.request():
            await app(scope, receive, send)

    return counting


class ProxyUser:
    """Takes the signed-in owner's name from a header of listed peers, and from nobody else.

    Other programs read `_` as `-`, so such a header counts too. It names nobody: proxies pass on the
    Remote_User of a client beside, or instead of, their own header.
    """

    def __init__(self, app: Application, *, header: str, peers: Sequence[str]) -> None:
        self._app = app
        self._header = header.encode()
        self._peers = Networks(peers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on without the header. The peer is that of the connection."""
        if self._header and scope["type"] == "http":
            named = [(name, value) for name, value in scope["headers"] if self._names_owner(name)]
            if named and (scope.get("client") or ("",))[0] in self._peers:
                scope[PROXY_USER_KEY] = [b"" if b"_" in name else value for name, value in named]
            if named:
                scope["headers"] = [each for each in scope["headers"] if each not in named]
        await self._app(scope, receive, send)

    def _names_owner(self, header: bytes) -> bool:
        return header.replace(b"_", b"-") == self._header


class Networks:
    """IP addresses and networks; `*` is all."""

    def __init__(self, names: Sequence[str]) -> None:
        self._all = "*" in names
        self._networks = [ipaddress.ip_network(name, strict=False) for name in names if name != "*"]

    def __contains__(self, address: str) -> bool:
        if self._all or not address:
            return self._all
        with suppress(ValueError):
            parsed = ipaddress.ip_address(address)
            return any(parsed in network for network in self._networks)
        return False


class ConnectionTable:
    """The open connections of a server. Not thread-safe.

    At a limit, the connection that has been idle longest makes room for a new one. Addresses of
    trusted proxies have no limit of their own: RunningRequests limits the clients that they name.
    """

    def __init__(
        self, *, max_connections: int, max_per_client: int, proxies: Sequence[str]
    ) -> None:
        self._max_connections, self._max_per_client = max_connections, max_per_client
        self._proxies = Networks(proxies)
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

    def protocol(self, **options: Any) -> ClientConnection:
        """Return the protocol of a new connection, with the options that uvicorn gives to one."""
        return ClientConnection(table=self, **options)

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

    def __init__(self, *, max_per_client: int, proxies: Sequence[str]) -> None:
        self._max_per_client = max_per_client
        self._proxies = Networks(proxies)
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
