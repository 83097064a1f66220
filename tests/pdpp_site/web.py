"""Any ASGI application on a free port, in a thread of the test."""

import contextlib
import http.client
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from random import SystemRandom

from pdpp_site import server as serving


@dataclass(frozen=True)
class Web:
    """Where the application listens."""

    port: int

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def get(self, path: str, *, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        """The answer, read in full: its body stands in ``response.content``."""
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            response.content = response.read()  # type: ignore[attr-defined]
            return response

    def dial(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


def read_until(line: socket.socket, words: bytes) -> bytes:
    """Return what arrives up to the part with these words; a header and its body are two parts."""
    said = b""
    while words not in said:
        part = line.recv(65_536)
        assert part, said
        said += part
    return said


def free_port() -> int:
    """Return a port for what has to know its address before it is served.

    Below the ports that the system gives to connections and to servers on port 0, so that no other
    test gets it before the server is there; by chance, so that no other worker chooses it too.
    """
    while True:
        port = SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def served(application: serving.Application, *, port: int = 0) -> Iterator[Web]:
    """The application as production serves it, until the block ends; 0 is any free port."""
    bound = serving.bind("127.0.0.1", port)
    ready = threading.Event()
    server = serving.Server(serving.uvicorn_config(application), ready=ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        assert ready.wait(60)
        yield Web(bound.getsockname()[1])
    finally:
        if thread.is_alive():
            server.handle_exit(
                signal.SIGTERM, None
            )  # its loop would see should_exit a second later
        thread.join(120)
        assert not thread.is_alive(), "the server does not stop"
