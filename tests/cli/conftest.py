"""The command line in a test: the project's own REST API behind it, in the test's transaction."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.core.handlers.wsgi import WSGIHandler

from cli import app, http_client
from tests.world import World

URL = "http://testserver"


@dataclass(frozen=True)
class Said:
    """How a command line ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def body(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.err.splitlines()[-1])["error"]
        return error


@dataclass
class Shell:
    """Where command lines are typed. `send` answers the requests they make; `asked` keeps them."""

    send: Callable[[httpx2.Request], httpx2.Response]
    capsys: pytest.CaptureFixture[str]
    asked: list[httpx2.Request] = field(default_factory=list)

    def __call__(self, *words: str) -> Said:
        self.capsys.readouterr()
        code = app.run(app.built(), words)
        out, err = self.capsys.readouterr()
        return Said(code, out, err)

    def client(self) -> httpx2.Client:
        return httpx2.Client(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        return self.send(request)


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """An empty working directory, nothing in the environment, and no server that answers."""

    def silent(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("connection refused", request=request)

    shell = Shell(silent, capsys)
    monkeypatch.chdir(tmp_path)
    for name in ("PDPP_PROVIDER_URL", "PDPP_CACHE_ROOT", "PDPP_ACCESS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(http_client, "opened", shell.client)
    return shell


@pytest.fixture
def pdpp(shell: Shell, world: World, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """As Dora, who reads everything, at this project's own server."""
    transport = httpx2.WSGITransport(app=WSGIHandler())
    shell.send = transport.handle_request
    monkeypatch.setenv("PDPP_PROVIDER_URL", URL)
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", world.tokens["dora"])
    return shell


def answering(answers: Mapping[str, Any]) -> Callable[[httpx2.Request], httpx2.Response]:
    """A server that knows some paths: a body, or a status and a body."""

    def send(request: httpx2.Request) -> httpx2.Response:
        found = answers.get(request.url.path, (404, {"error": {"code": "not_found"}}))
        status, body = found if isinstance(found, tuple) else (200, found)
        return httpx2.Response(status, json=body, request=request)

    return send
