"""Which request goes where, and what the site answers itself."""

import asyncio
import json
import threading
from collections.abc import Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import pytest
from django.db import OperationalError
from django.db.migrations.recorder import MigrationRecorder

from mcp_adapter.streamable_http import McpEndpoint
from operations import health
from pdpp_site.asgi_app import AsgiApp
from pdpp_site.wsgi_bridge import StartResponse
from tests.pdpp_site.web import served


def django(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [f"django {environ['REQUEST_METHOD']} {environ['PATH_INFO']}".encode()]


class Endpoint:
    """Stands in for the MCP transport and remembers its life."""

    def __init__(self) -> None:
        self.life: list[str] = []

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        content = f"mcp {scope['method']} {self.life}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": content})

    @asynccontextmanager
    async def lifespan(self) -> Any:
        self.life.append("began")
        yield
        self.life.append("ended")


def site() -> AsgiApp:
    return AsgiApp(application=django, endpoint=cast("McpEndpoint", Endpoint()))


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/", b"django GET /"),
        ("/v1/schema", b"django GET /v1/schema"),
        ("/mcp", b"mcp GET ['began']"),
        ("/mcp/", b"mcp GET ['began']"),
        ("/mcp/elsewhere", b"django GET /mcp/elsewhere"),
        ("/mcpx", b"django GET /mcpx"),
        ("/healthz/", b"django GET /healthz/"),
    ],
)
def test_only_the_mcp_path_goes_to_mcp(path: str, answer: bytes) -> None:
    with served(site()) as web:
        assert web.get(path).content == answer


def test_the_transport_lives_as_long_as_the_server() -> None:
    endpoint = Endpoint()

    with served(AsgiApp(application=django, endpoint=cast("McpEndpoint", endpoint))):
        assert endpoint.life == ["began"]
    assert endpoint.life == ["began", "ended"]


def test_the_process_says_that_it_lives_without_asking_the_database() -> None:
    with served(site()) as web:
        answer = web.get("/healthz", Host="203.0.113.9")
        head = web.get("/healthz", method="HEAD")

    assert (answer.status, json.loads(answer.content)) == (200, {"status": "ok"})
    assert (head.status, head.content) == (200, b"")


@pytest.mark.parametrize(
    ("reason", "status", "body"),
    [
        (None, 200, {"status": "ready"}),
        ("Two are gone.", 503, {"status": "unready", "reason": "Two are gone."}),
    ],
)
def test_readiness_tells_why_not(
    reason: str | None, status: int, body: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "not_ready_reason", lambda: reason)
    monkeypatch.setattr(health, "background_warning", lambda now: None)

    with served(site()) as web:
        answer = web.get("/readyz")

    assert (answer.status, json.loads(answer.content)) == (status, body)


def test_readiness_warns_of_work_that_nobody_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "not_ready_reason", lambda: None)
    monkeypatch.setattr(health, "background_warning", lambda now: health.JOBS_WAIT)

    with served(site()) as web:
        answer = web.get("/readyz")

    assert (answer.status, json.loads(answer.content)) == (
        200, {"status": "ready", "warning": health.JOBS_WAIT}
    )  # fmt: skip


def test_a_database_that_hangs_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdpp_site.asgi_app.READY_SECONDS", 0.05)
    answered = threading.Event()
    monkeypatch.setattr(health, "not_ready_reason", partial(answered.wait, 60))

    with served(site()) as web:
        answer = web.get("/readyz")
        answered.set()

    assert answer.status == 503
    assert "did not answer within" in json.loads(answer.content)["reason"]


@pytest.mark.django_db
def test_migrated_tables_are_ready() -> None:
    assert health.not_ready_reason() is None


@pytest.mark.django_db
def test_a_missing_migration_is_not_ready() -> None:
    MigrationRecorder.Migration.objects.filter(app="evidence").latest("id").delete()

    assert health.not_ready_reason() == "1 migrations are pending."


def test_a_database_that_refuses_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(connection: object) -> None:
        raise OperationalError("db.internal:5432: no pg_hba.conf entry for her")

    monkeypatch.setattr(health, "MigrationExecutor", refuse)

    assert health.not_ready_reason() == "The database does not respond."


def test_a_transport_that_cannot_start_keeps_the_server_from_starting() -> None:
    class Broken(Endpoint):
        @asynccontextmanager
        async def lifespan(self) -> Any:
            raise ZeroDivisionError
            yield

    broken = AsgiApp(application=django, endpoint=cast("McpEndpoint", Broken()))
    said: list[Any] = []

    async def live() -> None:
        async def receive() -> dict[str, str]:
            return {"type": "lifespan.startup"}

        async def send(message: Any) -> None:
            said.append(message["type"])

        with pytest.raises(ZeroDivisionError):
            await broken({"type": "lifespan"}, receive, send)

    asyncio.run(live())
    assert said == ["lifespan.startup.failed"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "127.0.0.1:x"])
@pytest.mark.parametrize("path", ["/v1/schema", "/mcp", "/"])
def test_a_wrong_host_is_misdirected(host: str, path: str) -> None:
    with served(site()) as web:
        answer = web.get(path, Host=host)

    error = json.loads(answer.content)["error"]
    assert answer.status == 421
    assert error["code"] == "misdirected_request"
    assert error["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8000", "[::1]:8000"])
def test_loopback_names_are_ours(host: str) -> None:
    with served(site()) as web:
        assert web.get("/", Host=host).status == 200


def test_two_hosts_in_one_request_are_none() -> None:
    with served(site()) as web, web.dial() as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n")
        assert line.recv(4096).startswith((b"HTTP/1.1 421 ", b"HTTP/1.1 400 "))


def test_the_server_does_not_say_what_it_is_made_of() -> None:
    with served(site()) as web:
        for path in ("/healthz", "/", "/v1/schema"):
            assert "uvicorn" not in str(web.get(path).headers).lower()
