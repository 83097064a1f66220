"""One uvicorn in this process, on a socket that is bound before anything else is done."""

import asyncio
import errno
import functools
import gc
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any, cast

import uvicorn
from django.conf import settings
from typing_extensions import override

from pdpp_site.connections import (
    KEEP_ALIVE_SECONDS,
    ClientConnection,
    ConnectionTable,
    raise_file_limit,
)

Application = Callable[[Any, Any, Any], Awaitable[None]]
BACKLOG = 1024
SWITCH_SECONDS = 0.0005


class NotBoundError(Exception):
    """Nobody can be served there; says why and what to do."""


def bind(host: str, port: int) -> socket.socket:
    """A bound socket; nobody can connect before the server listens. Raises ``NotBoundError``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            what = f"Port {port} on {host} is busy. Stop what runs there, or set PDPP_PORT."
        else:
            what = f"Port {port} on {host}: {error.strerror}. Set PDPP_BIND or PDPP_PORT otherwise."
        raise NotBoundError(what) from None
    return bound


class Server(uvicorn.Server):
    """Calls ``ready`` once requests are answered, and ``ending`` before it waits for the last."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        ready: Callable[[], None],
        ending: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._table = connection_table()
        config.http = cast(Any, functools.partial(ClientConnection, table=self._table))
        self._ready = ready
        self._ending = ending

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending()
        await super().shutdown(sockets)

    @override
    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # once a second
            self._table.close_late(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What is loaded by now stays; to look it all through again is what makes a request slow.
        gc.collect()
        gc.freeze()
        self._ready()


def connection_table() -> ConnectionTable:
    """Return an empty table; at most half of the files that may be open are connections.

    The other half is for the database, for uploads, and for connections that are being closed.
    """
    return ConnectionTable(
        most=min(settings.PDPP_CONNECTIONS, raise_file_limit() // 2),
        most_per_client=settings.PDPP_CLIENT_CONNECTIONS,
        proxies=settings.PDPP_TRUSTED_PROXIES,
    )


def configured(application: Application) -> uvicorn.Config:
    """How this project runs uvicorn, whatever the application."""
    return uvicorn.Config(
        application,
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,  # the site writes its own, without queries
        server_header=False,
        proxy_headers=True,
        forwarded_allow_ips=settings.PDPP_TRUSTED_PROXIES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        backlog=BACKLOG,
        timeout_graceful_shutdown=settings.PDPP_SHUTDOWN_SECONDS,
    )


def serve(bound: socket.socket, *, ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; what has begun is finished, for a limited time."""
    # Imported here: it builds the whole site.
    from pdpp_site.asgi import application

    # uvicorn raises the signal that ended it once more when all is done. From then on the only
    # work left is to stop the database, which a second signal must not cut short.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # Searching a long text keeps the interpreter busy; others wait no longer than this for it.
    sys.setswitchinterval(SWITCH_SECONDS)
    server = Server(configured(application), ready=ready, ending=application.stop_waiting)
    server.run(sockets=[bound])
