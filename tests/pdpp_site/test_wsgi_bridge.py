"""A WSGI application behind the bridge, spoken to over a socket."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from pdpp_site import wsgi_bridge
from pdpp_site.request_bodies import RequestBodies
from pdpp_site.wsgi_bridge import StartResponse, WsgiApplication, WsgiBridge
from tests.pdpp_site.web import Web, served

Environ = dict[str, Any]


@contextlib.contextmanager
def bridged(application: WsgiApplication, *, threads: int = 2) -> Iterator[Web]:
    bridge = WsgiBridge(application, threads=threads)
    bodies = RequestBodies()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for moment in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{moment}.complete"})
            return
        if scope["path"] == "/loop":  # answered without a thread
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})
            return
        async with bodies.read(scope, receive) as body:
            refusal = await bridge(scope, receive, send, body=body)
        if refusal is not None:
            status = refusal.code.status
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body"})

    try:
        with served(answer) as web:
            yield web
    finally:
        bridge.close()


def answering(
    *chunks: bytes, status: str = "200 OK", headers: Iterable[tuple[str, str]] = ()
) -> WsgiApplication:
    def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response(status, list(headers))
        return list(chunks)

    return application


def telling(*names: str) -> WsgiApplication:
    """An application that answers with what its environ says."""

    def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        return [repr([environ.get(name) for name in names]).encode()]

    return application


class Watched:
    """An endless response that remembers how far it came and whether it was closed."""

    def __init__(self, chunk: bytes) -> None:
        self.chunk = chunk
        self.made = 0
        self.closed = threading.Event()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        return self

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self.made += 1
        return self.chunk

    def close(self) -> None:
        self.closed.set()


def test_status_headers_and_body_arrive_as_the_application_gave_them() -> None:
    headers = [("X-One", "1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]

    with bridged(answering(b"be", b"", b"ans", status="418 Teapot", headers=headers)) as web:
        answer = web.get("/")

    assert answer.status == 418
    assert answer.content == b"beans"
    assert answer.headers["x-one"] == "1"
    assert answer.headers.get_all("set-cookie") == ["a=1", "b=2"]


@pytest.mark.parametrize("chunks", [(), (b"",), (b"", b"")])
def test_an_empty_body_is_an_answer_too(chunks: tuple[bytes, ...]) -> None:
    with bridged(answering(*chunks, headers=[("Content-Length", "0")])) as web:
        assert web.get("/").content == b""


def test_a_declared_length_is_kept_and_the_connection_serves_the_next_request() -> None:
    with bridged(answering(b"12", b"345", headers=[("Content-Length", "5")])) as web:
        connection = web.connect()
        for _ in range(3):
            connection.request("GET", "/")
            answer = connection.getresponse()
            assert answer.headers["content-length"] == "5"
            assert answer.read() == b"12345"
        connection.close()


def test_head_has_the_headers_of_get_and_no_body() -> None:
    endless = Watched(b"x" * 5)

    with bridged(answering(b"12345", headers=[("Content-Length", "5")])) as web:
        answer = web.get("/", method="HEAD")
    with bridged(endless) as web:
        assert web.get("/", method="HEAD").status == 200

    assert answer.headers["content-length"] == "5"
    assert answer.content == b""
    assert endless.made == 1
    assert endless.closed.is_set()


def test_a_client_that_does_not_read_slows_its_own_response_down() -> None:
    endless = Watched(b"x" * 65_536)

    with bridged(endless, threads=1) as web:
        with web.dial() as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            line.recv(1024)
            # Some chunks lie in the buffers of both sockets, then the thread waits.
            made = 0
            while made == 0 or endless.made > made:
                made = endless.made
                assert made < 500
                assert not endless.closed.wait(0.3)
        assert endless.closed.wait(60)


def test_a_client_that_reads_no_more_frees_the_thread_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wsgi_bridge, "CLIENT_IDLE_SECONDS", 0.1)
    endless = Watched(b"x" * 65_536)

    with bridged(endless, threads=1) as web, web.dial() as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert endless.closed.wait(60)


def test_a_client_that_leaves_while_it_waits_is_not_served() -> None:
    begun: list[str] = []
    first, go_on = threading.Event(), threading.Event()

    def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        begun.append(environ["PATH_INFO"])
        first.set()
        go_on.wait(60)
        start_response("200 OK", [])
        return [b"done"]

    with bridged(application, threads=1) as web, web.dial() as running:
        running.sendall(b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n")
        assert first.wait(60)
        with web.dial() as waiting:
            waiting.sendall(b"GET /waiting HTTP/1.1\r\nHost: x\r\n\r\n")
            web.get("/loop")
        # The loop has answered three more clients since, so it knows that this one hung up.
        for _ in range(3):
            web.get("/loop")
        go_on.set()
        assert web.get("/last").content == b"done"

    assert begun == ["/first", "/last"]


def test_beyond_a_full_queue_clients_get_retry_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wsgi_bridge, "MAX_WAITING_REQUESTS", 0)
    begun, go_on = threading.Event(), threading.Event()

    def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        begun.set()
        go_on.wait(60)
        start_response("200 OK", [])
        return []

    with bridged(application, threads=1) as web, web.dial() as running:
        running.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert begun.wait(60)
        assert web.get("/").status == 503
        go_on.set()
        assert running.recv(1024).startswith(b"HTTP/1.1 200 ")


def test_an_application_that_fails_answers_500_and_the_next_request_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/fails":
            raise ZeroDivisionError
        start_response("200 OK", [])
        return [b"well"]

    with bridged(application, threads=1) as web:
        assert web.get("/fails").status == 500
        assert web.get("/").content == b"well"
    assert "ZeroDivisionError" in caplog.text


def test_the_path_is_decoded_once_and_kept_as_it_was_sent() -> None:
    with bridged(telling("PATH_INFO", "RAW_URI", "QUERY_STRING")) as web:
        told = web.get("/v1/a%2Fb%20%E6%97%A5/c?q=%2F&x=1").content

    decoded = "/v1/a/b 日/c".encode().decode("latin-1")
    assert told == repr([decoded, "/v1/a%2Fb%20%E6%97%A5/c", "q=%2F&x=1"]).encode()


def test_a_header_with_an_underscore_cannot_pose_as_another() -> None:
    with bridged(telling("HTTP_X_FORWARDED_FOR", "HTTP_COOKIE")) as web, web.dial() as line:
        line.sendall(
            b"GET / HTTP/1.1\r\nHost: x\r\nX_Forwarded_For: 6.6.6.6\r\nCookie: a=1\r\n"
            b"Cookie: b=2\r\nConnection: close\r\n\r\n"
        )
        answer = b"".join(iter(lambda: line.recv(4096), b""))

    assert answer.endswith(b"[None, 'a=1; b=2']\r\n0\r\n\r\n")


@pytest.mark.parametrize("write", [True, False])
def test_an_exception_after_the_start_cannot_look_like_success(
    write: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        send: Callable[[bytes], None] = start_response("200 OK", [("Content-Length", "10")])
        if write:
            send(b"half")
        raise ZeroDivisionError

    with bridged(application) as web, web.dial() as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b"".join(iter(lambda: line.recv(4096), b""))

    assert answer.startswith(b"HTTP/1.1 200 " if write else b"HTTP/1.1 500 ")
    assert b"half" in answer if write else b"half" not in answer
    assert "ZeroDivisionError" in caplog.text


def test_a_thread_that_never_ends_does_not_keep_the_server_from_stopping(settings: Any) -> None:
    settings.PDPP_SHUTDOWN_SECONDS = 0
    begun, go_on = threading.Event(), threading.Event()

    def application(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        begun.set()
        go_on.wait(60)
        start_response("200 OK", [])
        return []

    with bridged(application) as web:
        line = web.dial()
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert begun.wait(60)

    assert not go_on.is_set()
    go_on.set()
    line.close()
