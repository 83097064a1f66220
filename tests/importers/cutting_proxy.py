"""A TCP proxy that cuts a connection after some bytes of the server, or delivers them slowly."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class CuttingProxy:
    """Forwards to a port. Cuts each connection after ``cut_after`` bytes of the server, if set.

    ``is_silent``: it accepts connections and delivers nothing.
    """

    target: int
    cut_after: int | None = None
    is_silent: bool = False
    bytes_delivered: int = 0
    port: int = 0
    _open: list[socket.socket] = field(default_factory=list)

    def serve(self, listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self._open += [client, server]
            for source, sink, is_server in ((client, server, False), (server, client, True)):
                thread = threading.Thread(
                    target=self._forward, args=(source, sink, is_server), daemon=True
                )
                thread.start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_server: bool) -> None:
        left = self.cut_after
        with contextlib.suppress(OSError):
            while data := source.recv(16 * 1024):
                if is_server:
                    if self.is_silent:
                        continue
                    data = data if left is None else data[:left]
                    self.bytes_delivered += len(data)
                    left = None if left is None else left - len(data)
                sink.sendall(data)
                if is_server and left == 0:
                    break
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in self._open:
            each.close()


@contextlib.contextmanager
def cutting_proxy(target: int) -> Iterator[CuttingProxy]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(50)
        proxy = CuttingProxy(target, port=listening.getsockname()[1])
        thread = threading.Thread(target=proxy.serve, args=(listening,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            listening.close()
            thread.join()
            proxy.close()
