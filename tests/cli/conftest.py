"""Fixtures that run `pdpp` commands against the project's REST API or a fake server."""

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
class CommandResult:
    """Exit code and output of a command."""

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
    """Runs commands. `send` answers their requests, which `requests` records."""

    send: Callable[[httpx2.Request], httpx2.Response]
    capsys: pytest.CaptureFixture[str]
    requests: list[httpx2.Request] = field(default_factory=list)

    def __call__(self, *words: str) -> CommandResult:
        self.capsys.readouterr()
        code = app.run(app.build_app(), words)
        out, err = self.capsys.readouterr()
        return CommandResult(code, out, err)

    def client(self) -> httpx2.Client:
        return httpx2.Client(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return self.send(request)


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """Run in an empty directory without environment variables or a reachable server."""

    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("connection refused", request=request)

    shell = Shell(refuse, capsys)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("PDPP_PROVIDER_URL", "PDPP_CACHE_ROOT", "PDPP_ACCESS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(http_client, "open_client", shell.client)
    return shell


@pytest.fixture
def pdpp(shell: Shell, world: World, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run commands as Dora, whose grant covers everything, against the project's server."""
    transport = httpx2.WSGITransport(app=WSGIHandler())
    shell.send = transport.handle_request
    monkeypatch.setenv("PDPP_PROVIDER_URL", URL)
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", world.tokens["dora"])
    return shell


def answering(answers: Mapping[str, Any]) -> Callable[[httpx2.Request], httpx2.Response]:
    """Return a server that answers known paths with a body, or with a status and a body."""

    def send(request: httpx2.Request) -> httpx2.Response:
        response = answers.get(request.url.path, (404, {"error": {"code": "not_found"}}))
        status, body = response if isinstance(response, tuple) else (200, response)
        return httpx2.Response(status, json=body, request=request)

    return send
