"""How much of a body each route takes, from whom, and how long the server waits for it."""

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import Client

from evidence import limits
from mcp_adapter.streamable_http import McpEndpoint
from pdpp_site import asgi_app, request_bodies
from pdpp_site.asgi_app import AsgiApp
from pdpp_site.request_bodies import DEFAULT_BYTES, IN_MEMORY_BYTES, MCP_BYTES, LargeRoute
from pdpp_site.wsgi import application
from pdpp_site.wsgi_bridge import StartResponse, WsgiApplication
from tests.owners import sign_up
from tests.pdpp_site.test_site import Endpoint
from tests.pdpp_site.web import Web, read_until, served
from tests.world import World

INGEST = "/v1/ingest/messages?connector_id=mail&connection_id=cin_personal"
LIMIT = 4 * 1024 * 1024
Environ = dict[str, Any]


@pytest.fixture(autouse=True)
def _connections_end_with_each_request(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of a server under test leave no database connection open."""
    monkeypatch.setattr(request_bodies, "DISCARD_PAUSE_SECONDS", 0.05)
    settings.CONN_MAX_AGE = 0
    for moment in (request_started, request_finished):
        moment.connect(close_old_connections)


@contextlib.contextmanager
def site() -> Iterator[Web]:
    with served(AsgiApp(application=application, endpoint=asgi_app.endpoint())) as web:
        yield web


def taking(ran: threading.Event) -> WsgiApplication:
    """An application that answers with the size of the body and its last bytes."""

    def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "POST":
            ran.set()
        start_response("200 OK", [])
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"] or 0))
        chunked = "HTTP_TRANSFER_ENCODING" in environ
        return [f"{environ['CONTENT_LENGTH']} {chunked} {body[-3:]!r}".encode()]

    return answer


class ReadingEndpoint(Endpoint):
    """Stands in for the MCP transport and reads one message."""

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await super().app(scope, receive, send)


@contextlib.contextmanager
def taken(ran: threading.Event | None = None, *, threads: int = 2) -> Iterator[Web]:
    """A site that takes LIMIT bytes at /large from everybody, and runs no Django."""
    endpoint = cast("McpEndpoint", ReadingEndpoint())
    built = AsgiApp(application=taking(ran or threading.Event()), endpoint=endpoint)
    built._bodies._routes = [LargeRoute("/large", LIMIT, lambda scope: None)]
    with served(built) as web:
        yield web


def head(path: str, *lines: str, length: int | None = None) -> bytes:
    announced = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    said = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", announced, *lines]
    return "\r\n".join([*said, "", ""]).encode()


def answered(line: socket.socket) -> tuple[int, dict[str, Any]]:
    """The status and the JSON body of an answer on a line that is then closed."""
    said = b"".join(iter(lambda: line.recv(65_536), b""))
    top, _, body = said.partition(b"\r\n\r\n")
    return int(top.split(b" ")[1]), json.loads(body)


@pytest.mark.parametrize("path", ["/oauth/token", "/login", "/v1/search", "/set-up/x/", "/nowhere"])
@pytest.mark.parametrize("sent", [[], ["Authorization: Bearer x", "Cookie: pdpp-session=x"]])
def test_a_form_over_64_kib_is_refused_whatever_its_headers_claim(
    path: str, sent: list[str]
) -> None:
    with taken() as web, web.dial() as line:
        line.sendall(head(path, *sent, length=DEFAULT_BYTES + 1))
        status, body = answered(line)

    assert status == 413
    assert body["error"]["code"] == "resource_limit"
    assert str(DEFAULT_BYTES) in body["error"]["message"]


def test_a_browser_gets_a_page_of_a_body_that_is_too_large() -> None:
    with taken() as web, web.dial() as line:
        line.sendall(head("/login", "Accept: text/html", length=DEFAULT_BYTES + 1))
        said = b"".join(iter(lambda: line.recv(65_536), b""))

    assert said.startswith(b"HTTP/1.1 413 ")
    assert b"<h1>Too large</h1>" in said


def test_a_client_that_sends_on_reads_why_its_body_was_refused() -> None:
    with taken() as web, contextlib.closing(web.connect()) as connection:
        connection.request("POST", "/oauth/token", body=b"x" * LIMIT)
        assert connection.getresponse().status == 413


@pytest.mark.parametrize("path", ["/oauth/token", "/large", "/mcp"])
def test_a_refused_body_is_read_to_its_end_before_the_answer(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that is answered while it sends may pass on half of the answer."""
    monkeypatch.setattr(request_bodies, "DISCARD_PAUSE_SECONDS", 5)
    half = LIMIT // 2 + 1
    with taken() as web, web.dial() as line:
        line.sendall(head(path, length=2 * half) + b"x" * half)
        line.settimeout(0.3)
        with pytest.raises(TimeoutError):
            line.recv(1)
        line.settimeout(60)
        line.sendall(b"x" * half)
        assert answered(line)[0] == 413


def test_a_form_of_64_kib_is_read() -> None:
    with taken() as web, web.dial() as line:
        line.sendall(head("/oauth/token", length=DEFAULT_BYTES))
        line.sendall(b"x" * DEFAULT_BYTES)
        assert line.recv(1024).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("who", "status", "code"),
    [(None, 401, "authentication_error"), ("nobody", 401, "authentication_error"),
     ("bob", 403, "permission_error")],
)  # fmt: skip
@pytest.mark.parametrize("path", [INGEST, "/v1/blobs", "/v1/state/mail", "/v1/connectors"])
@pytest.mark.django_db(transaction=True)
def test_a_large_body_is_not_read_before_the_owners_token_is_checked(
    committed: World, path: str, who: str | None, status: int, code: str
) -> None:
    token = committed.tokens.get(who or "", "unknown")
    sent = [f"Authorization: Bearer {token}"] if who else []
    with site() as web, web.dial() as line:
        line.sendall(head(path, *sent, "Expect: 100-continue", length=DEFAULT_BYTES + 1))
        answer = answered(line)

    assert answer[0] == status
    assert answer[1]["error"]["code"] == code


@pytest.mark.django_db(transaction=True)
def test_a_bad_token_on_a_large_body_says_where_to_get_a_good_one(committed: World) -> None:
    with site() as web, web.dial() as line:
        line.sendall(head(INGEST, "Authorization: Bearer x", length=DEFAULT_BYTES + 1))
        said = b"".join(iter(lambda: line.recv(65_536), b"")).decode()

    assert 'www-authenticate: Bearer resource_metadata="http' in said
    assert 'error="invalid_token"' in said


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.django_db(transaction=True)
def test_a_large_body_with_the_owners_token_is_read(committed: World, chunked: bool) -> None:
    text = "x" * DEFAULT_BYTES
    line = {"key": "large", "data": {"id": "large", "body_text": text},
            "emitted_at": "2026-11-01T00:00:00Z"}  # fmt: skip
    content = json.dumps(line).encode()
    with site() as web, contextlib.closing(web.connect()) as connection:
        body: Any = iter([content]) if chunked else content
        bearer = {"Authorization": f"Bearer {committed.tokens['alice']}"}
        connection.request("POST", INGEST, body=body, headers=bearer, encode_chunked=chunked)
        answer = json.loads(connection.getresponse().read())

    assert answer["records_accepted"] == 1


@pytest.mark.parametrize("cookie", [None, "unknown"])
@pytest.mark.parametrize("path", ["/imports/slice", "/connections/cin_1"])
@pytest.mark.django_db(transaction=True)
def test_a_large_form_is_not_read_before_the_owners_session_is_checked(
    committed: World, path: str, cookie: str | None
) -> None:
    sent = [f"Cookie: pdpp-session={cookie}"] if cookie else []
    with site() as web, web.dial() as line:
        line.sendall(head(path, *sent, length=DEFAULT_BYTES + 1))
        status, body = answered(line)

    assert (status, body["error"]["code"]) == (403, "permission_error")


@pytest.mark.django_db(transaction=True)
def test_a_large_slice_with_the_owners_session_is_read(
    committed: World, settings: Any, tmp_path: Any
) -> None:
    settings.PDPP_VAR = tmp_path
    content = b"x" * (DEFAULT_BYTES + 1)
    browser = Client()
    browser.force_login(sign_up("alice"))
    browser.get("/imports")
    cookies = "; ".join(f"{name}={each.value}" for name, each in browser.cookies.items())
    sent = {"Cookie": cookies, "X-CSRFToken": browser.cookies[settings.CSRF_COOKIE_NAME].value}
    with site() as web, contextlib.closing(web.connect()) as connection:
        query = f"name=chat.txt&size={len(content)}&offset=0"
        path = f"/imports/slice?{query}"
        connection.request("POST", path, body=content, headers=sent)
        answer = connection.getresponse()
        body = json.loads(answer.read())

    assert (answer.status, body["received"]) == (200, len(content))


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_of_its_route_never_reaches_the_application(chunked: bool) -> None:
    ran = threading.Event()
    with taken(ran) as web, web.dial() as line:
        line.sendall(head("/large", length=None if chunked else LIMIT + 1))
        if chunked:
            with contextlib.suppress(ConnectionError):
                line.sendall(b"%x\r\n%s" % (LIMIT + 1, b"x" * (LIMIT + 1)))
        assert line.recv(1024).startswith(b"HTTP/1.1 413 ")

    assert not ran.is_set()


def test_a_body_is_read_in_full_whatever_its_size() -> None:
    with taken() as web, contextlib.closing(web.connect()) as connection:
        for size in (3, DEFAULT_BYTES, DEFAULT_BYTES + 1, IN_MEMORY_BYTES + 7, LIMIT):
            connection.request("POST", "/large", body=b"x" * (size - 3) + b"end")
            assert connection.getresponse().read().decode() == f"{size} False b'end'"


def test_a_chunked_upload_has_a_length_when_the_application_sees_it() -> None:
    with taken() as web, contextlib.closing(web.connect()) as connection:
        connection.request("POST", "/", body=iter([b"abc", b"defg"]), encode_chunked=True)
        assert connection.getresponse().read() == b"7 False b'efg'"


def test_a_slow_upload_occupies_neither_a_thread_nor_a_place(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.PDPP_THREADS = 1
    monkeypatch.setattr("pdpp_site.wsgi_bridge.MAX_WAITING_REQUESTS", 0)
    with taken() as web, web.dial() as slow, web.dial() as slower:
        for line in (slow, slower):
            line.sendall(head("/", length=10) + b"half")
        assert web.get("/").status == 200


@pytest.mark.parametrize("path", ["/", "/mcp"])
def test_a_body_that_comes_byte_by_byte_ends_after_the_deadline_in_total(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_bodies, "GRACE_SECONDS", 0.3)
    with taken() as web, web.dial() as slow:
        slow.sendall(head(path, length=2_000))
        slow.settimeout(0.05)
        for _ in range(1_200):
            with contextlib.suppress(TimeoutError):
                said = slow.recv(1)
                break
            slow.sendall(b"x")
        slow.settimeout(60)
        said += read_until(slow, b"did not arrive in time")

    assert said.startswith(b"HTTP/1.1 400 ")


def test_a_body_that_breaks_off_never_reaches_the_application() -> None:
    ran = threading.Event()
    with taken(ran, threads=1) as web:
        with web.dial() as line:
            line.sendall(head("/", length=10) + b"half")
        assert web.get("/").status == 200

    assert not ran.is_set()


@pytest.mark.parametrize("path", ["/mcp", "/oauth/token", "/v1/search?q=lease"])
@pytest.mark.parametrize("sent", [b"half", b"whole whole"])
@pytest.mark.django_db(transaction=True)
def test_a_client_that_leaves_is_no_error_in_the_log(
    committed: World, path: str, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    token = committed.tokens["dora@mcp" if path == "/mcp" else "dora"]
    with caplog.at_level(logging.INFO), site() as web:
        for _ in range(5):
            with web.dial() as line:
                line.sendall(
                    head(path, f"Authorization: Bearer {token}", "Accept: application/json",
                         "Content-Type: application/json", length=11) + sent
                )  # fmt: skip
        web.get("/healthz")

    worse = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert worse == []
    lines = [each for each in caplog.records if each.name == "pdpp.access"]
    assert not [each for each in lines if (getattr(each, "status", 0) or 0) >= 500]


def test_the_limits_are_those_of_the_documentation(settings: Any) -> None:
    most = {route.prefix: route.max_bytes for route in request_bodies.LARGE_ROUTES}

    assert DEFAULT_BYTES == 64 * 1024
    assert MCP_BYTES == 1024 * 1024
    large = {prefix for prefix, size in most.items() if size > 2 * MCP_BYTES}
    assert large == {"/v1/ingest/", "/v1/blobs", "/imports"}
    assert max(most.values()) == limits.INGEST_MAX_BYTES
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE == request_bodies.OWNER_FORM_BYTES
