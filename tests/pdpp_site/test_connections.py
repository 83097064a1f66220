"""Deadlines and limits of connections, over sockets. Attackers are at 127.0.0.2, which is no proxy."""

import contextlib
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, cast

import pytest
from django.conf import settings as django_settings

from mcp_adapter.streamable_http import McpEndpoint
from pdpp_site import connections, server
from pdpp_site.asgi_app import AsgiApp
from pdpp_site.connections import HEADER_BYTES, client_key
from pdpp_site.wsgi_bridge import StartResponse
from tests.pdpp_site.test_site import Endpoint, django
from tests.pdpp_site.web import Web, read_until, served

pytestmark = pytest.mark.slow

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="every address of 127.0.0.0/8 is local on Linux alone"
)
ATTACKER = "127.0.0.2"
CLIENT = "127.0.0.3"
GET = b"GET /v1/schema HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def web() -> Iterator[Web]:
    with served(AsgiApp(application=django, endpoint=cast("McpEndpoint", Endpoint()))) as web:
        yield web


def dial(web: Web, address: str = ATTACKER) -> socket.socket:
    return socket.create_connection(("127.0.0.1", web.port), 60, source_address=(address, 0))


def until_closed(line: socket.socket) -> bytes:
    """Return all that the server sends before it closes the connection."""
    said = b""
    with contextlib.suppress(ConnectionError):
        for part in iter(lambda: line.recv(65_536), b""):
            said += part
    return said


def is_open(line: socket.socket) -> bool:
    line.settimeout(0.3)
    try:
        return line.recv(1) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: local"])
def test_a_header_must_arrive_before_its_deadline(
    web: Web, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    with dial(web) as line:
        line.sendall(sent)
        said = until_closed(line)

    assert (b"HTTP/1.1 408 " in said) == bool(sent)


def test_a_header_byte_by_byte_has_one_deadline_in_total(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    closed = threading.Event()
    with dial(web) as line:
        reader = threading.Thread(target=lambda: (until_closed(line), closed.set()))
        reader.start()
        with contextlib.suppress(ConnectionError):
            for byte in b"GET / HTTP/1.1\r\nX: " + b"x" * 1_200:
                line.sendall(bytes([byte]))
                if closed.wait(0.05):
                    break
            else:
                pytest.fail("each byte begins a deadline of its own")
        reader.join()


def test_blank_lines_between_requests_do_not_keep_a_connection_open(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    with dial(web) as line:
        line.sendall(GET)
        assert line.recv(4096).startswith(b"HTTP/1.1 200 ")
        for _ in range(1_200):
            try:
                line.sendall(b"\r\n")
            except ConnectionError:
                break
            time.sleep(0.05)
        else:
            pytest.fail("the connection is still open")


@pytest.mark.parametrize("piece", [b"x" * 1000, b"x: y\r\n" * 100])
@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nX: "])
def test_an_endless_header_is_refused(web: Web, start: bytes, piece: bytes) -> None:
    with dial(web) as line:
        line.sendall(start)
        with contextlib.suppress(ConnectionError):
            for _ in range(3 * HEADER_BYTES // len(piece)):
                line.sendall(piece)
        said = until_closed(line)

    assert not said or said.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


def test_a_header_below_the_limit_is_read(web: Web) -> None:
    with dial(web) as line:
        path = b"/v1/search?q=" + b"x" * (HEADER_BYTES // 2)
        line.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n" % (path, b"y" * 20_000))
        assert line.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_pipelined_requests_are_answered_in_turn(web: Web) -> None:
    with dial(web) as line:
        line.sendall(GET * 50 + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert until_closed(line).count(b"HTTP/1.1 200 ") == 51


def test_the_rest_of_a_refused_body_does_not_keep_the_connection_open(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    with dial(web) as line:
        # The stand-in for /mcp answers, as a 401 does, without the body.
        line.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 200 ")
        for _ in range(1_200):
            try:
                line.sendall(b"x")
            except ConnectionError:
                break
            time.sleep(0.05)
        else:
            pytest.fail("the connection is still open")


def test_a_body_that_ends_soon_after_the_answer_keeps_the_connection(web: Web) -> None:
    with dial(web) as line:
        line.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nha")
        assert line.recv(4096).startswith(b"HTTP/1.1 200 ")
        line.sendall(b"lf" + GET)
        assert read_until(line, b"django GET /v1/schema")


def test_a_client_that_reads_no_answer_is_closed(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.3)
    closed = threading.Event()

    class Endless:
        def __iter__(self) -> Iterator[bytes]:
            while True:
                yield b"x" * 65_536

        def close(self) -> None:
            closed.set()

    def application(environ: Any, start_response: StartResponse) -> Any:
        start_response("200 OK", [])
        return Endless()

    endpoint = cast("McpEndpoint", Endpoint())
    with served(AsgiApp(application=application, endpoint=endpoint)) as web, dial(web) as line:
        line.sendall(GET)
        assert closed.wait(60)


def limited(settings: Any, *, client: int = 5, total: int = 1000) -> AsgiApp:
    settings.PDPP_CLIENT_CONNECTIONS, settings.PDPP_CONNECTIONS = client, total
    return AsgiApp(application=django, endpoint=cast("McpEndpoint", Endpoint()))


def test_a_client_at_its_limit_loses_its_idlest_connection(settings: Any) -> None:
    with served(limited(settings)) as web, contextlib.ExitStack() as lines:
        other = lines.enter_context(dial(web, CLIENT))
        first, *rest = (lines.enter_context(dial(web)) for _ in range(6))
        rest[-1].sendall(GET)
        assert rest[-1].recv(4096).startswith(b"HTTP/1.1 200 ")

        assert until_closed(first) == b""
        assert all(is_open(line) for line in [other, *rest])


def test_a_client_with_all_connections_in_use_gets_retry_after(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Semaphore(0)
    request = connections.ClientConnection.request

    def request_begun(connection: connections.ClientConnection) -> AbstractContextManager[None]:
        begun.release()
        return request(connection)

    monkeypatch.setattr(connections.ClientConnection, "request", request_begun)
    half = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf"
    with served(limited(settings)) as web, contextlib.ExitStack() as lines:
        for _ in range(5):
            lines.enter_context(dial(web)).sendall(half)
            assert begun.acquire(timeout=60)
        with dial(web) as late, dial(web, CLIENT) as other:
            assert until_closed(late).startswith(b"HTTP/1.1 503 ")
            other.sendall(GET)
            assert other.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_the_idlest_of_all_connections_makes_room_when_there_are_too_many(settings: Any) -> None:
    with served(limited(settings, client=100, total=10)) as web, contextlib.ExitStack() as lines:
        first, *rest = (lines.enter_context(dial(web)) for _ in range(11))
        rest[-1].sendall(GET)
        assert rest[-1].recv(4096).startswith(b"HTTP/1.1 200 ")

        assert until_closed(first) == b""


def test_a_proxy_has_no_limit_and_the_clients_it_names_have(settings: Any) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def application(environ: Any, start_response: StartResponse) -> list[bytes]:
        begun.release()
        if environ["PATH_INFO"] == "/slow":
            go_on.wait(60)
        start_response("200 OK", [])
        return [b"done"]

    settings.PDPP_CLIENT_CONNECTIONS = 2
    built = AsgiApp(application=application, endpoint=cast("McpEndpoint", Endpoint()))

    def ask(line: socket.socket, path: str, client: str) -> None:
        forwarded = f"X-Forwarded-For: {client}\r\n" if client else ""
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{forwarded}\r\n".encode())

    with served(built) as web, contextlib.ExitStack() as lines:
        proxied = [lines.enter_context(dial(web, "127.0.0.1")) for _ in range(6)]
        for line in proxied[:2]:
            ask(line, "/slow", "203.0.113.7")
            assert begun.acquire(timeout=60)
        answers = []
        for line, client in zip(proxied[2:], ["203.0.113.7", "203.0.113.8", "", ""], strict=True):
            ask(line, "/", client)
            answers.append(line.recv(4096)[9:12])
        go_on.set()

    assert answers == [b"503", b"200", b"200", b"200"]


def test_connections_take_at_most_half_of_the_files_that_may_be_open(settings: Any) -> None:
    settings.PDPP_CONNECTIONS = 10_000_000
    table = server.connection_table()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert table._max_connections <= soft // 2
    assert django_settings.PDPP_TRUSTED_PROXIES == ["127.0.0.1", "::1"]


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_a_client_is_an_ipv4_address_or_an_ipv6_network(address: str, client: str) -> None:
    assert client_key(address) == client
