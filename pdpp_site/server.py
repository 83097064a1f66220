"""Run uvicorn on a socket that is bound before startup."""

import contextlib
import ctypes
import errno
import gc
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, cast

import uvicorn
from django.conf import settings
from typing_extensions import override
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from pdpp_site.connections import (
    HEADER_BYTES,
    KEEP_ALIVE_SECONDS,
    Application,
    ConnectionTable,
    ProxyUser,
    count_requests,
    raise_file_limit,
)

BACKLOG = 1024
SWITCH_SECONDS = 0.0005
MALLOC_OPTIONS = {-1: 1_048_576, -3: 2_097_152, -8: 2}
"""M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_ARENA_MAX of glibc's malloc.h.

Lower thresholds save 2 MB more, and page faults then slow down what reads a text of 1 MB.
"""


class BindError(Exception):
    """The address cannot be bound; the message says why and what to do."""


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet. Raises BindError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            message = f"Port {port} on {host} is in use. Stop that program, or set PDPP_PORT."
        else:
            message = f"Port {port} on {host}: {error.strerror}. Change PDPP_BIND or PDPP_PORT."
        raise BindError(message) from None
    return bound


class Server(uvicorn.Server):
    """Calls `ready` when requests are answered."""

    def __init__(self, config: uvicorn.Config, *, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Loaded modules stay in memory. Scanning them in each collection would slow requests.
        gc.collect()
        gc.freeze()
        self._ready()


def connection_table() -> ConnectionTable:
    """Return an empty connection table with at most half of the allowed open files.

    The other half serves the database, uploads and closing connections.
    """
    return ConnectionTable(
        max_connections=min(settings.PDPP_CONNECTIONS, raise_file_limit() // 2),
        max_per_client=settings.PDPP_CLIENT_CONNECTIONS,
        proxies=settings.PDPP_TRUSTED_PROXIES,
    )


def uvicorn_config(application: Application) -> uvicorn.Config:
    """Return the uvicorn configuration of this project."""
    with_addresses = ProxyHeadersMiddleware(
        cast(Any, application), trusted_hosts=settings.PDPP_TRUSTED_PROXIES
    )
    with_user = ProxyUser(
        cast(Any, with_addresses),
        header=settings.PDPP_PROXY_USER_HEADER,
        peers=settings.PDPP_PROXY_USER_PEERS,
    )
    return uvicorn.Config(
        count_requests(with_user),
        http=cast(Any, connection_table().protocol),
        h11_max_incomplete_event_size=HEADER_BYTES,
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,  # operations.access_log writes one without queries
        server_header=False,
        proxy_headers=False,  # ProxyUser needs the peer of the connection
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        backlog=BACKLOG,
        timeout_graceful_shutdown=settings.PDPP_SHUTDOWN_SECONDS,
    )


def _limit_heap() -> None:
    """Have glibc return freed memory: its threshold grows with large blocks, its arenas with threads."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        for option, value in MALLOC_OPTIONS.items():
            ctypes.CDLL(None).mallopt(option, value)


def serve(bound: socket.socket, *, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; running requests then finish within a time limit."""
    # Imported here, because it builds the application.
    from pdpp_site.asgi import application

    # uvicorn raises the signal again when it has stopped. A signal must not interrupt stopping the
    # database, which follows.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _limit_heap()
    # A search in a long text holds the GIL; other threads wait at most this long for it.
    sys.setswitchinterval(SWITCH_SECONDS)
    Server(uvicorn_config(application), ready=ready).run(sockets=[bound])
