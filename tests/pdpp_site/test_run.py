"""``manage.py run`` as a process of its own, on a directory of its own."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pdpp_site.embedded_postgres import EmbeddedPostgres

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60


@dataclass
class Installation:
    """What a person has after a clone: a directory, a port and ``manage.py``."""

    var: Path
    port: int

    def manage(self, *arguments: str, **more: str) -> "subprocess.Popen[str]":
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PDPP_")}
        inherited.pop("DATABASE_URL", None)
        chosen = {"PDPP_VAR": str(self.var), "PDPP_PORT": str(self.port), "PDPP_DEMO": "false"}
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=inherited | chosen | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def database_runs(self) -> bool:
        return any(EmbeddedPostgres(self.var / "postgres")._server_processes())


@contextlib.contextmanager
def running(installation: Installation) -> Iterator["subprocess.Popen[str]"]:
    """The server from its welcome to its end; its output keeps flowing into ``lines``."""
    server = installation.manage("run")
    lines: list[str] = []
    welcomed = threading.Event()

    def read() -> None:
        assert server.stdout is not None
        for line in server.stdout:
            lines.append(line)
            if "PDPP answers after" in line:
                welcomed.set()
        welcomed.set()

    reader = threading.Thread(target=read)
    reader.start()
    server.lines = lines  # type: ignore[attr-defined]
    try:
        assert welcomed.wait(START_SECONDS), lines
        assert server.poll() is None, "".join(lines)
        yield server
    finally:
        server.terminate()
        server.wait(30)
        reader.join(5)
        assert server.stdout is not None
        server.stdout.close()


@pytest.fixture
def installation() -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="pdpp-") as directory, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        yield Installation(Path(directory) / "var", port)


def test_it_serves_at_once_and_stops_cleanly(installation: Installation) -> None:
    with running(installation) as server:
        assert installation.get("/readyz") == (200, b'{"status":"ready"}')
        assert installation.get("/v1/schema")[0] == 401
        assert installation.get("/mcp")[0] == 401
        assert installation.get("/admin/login/")[0] == 200
        link = next(line.strip() for line in server.lines if "/set-up/" in line)  # type: ignore[attr-defined]
        assert installation.get(link.partition(str(installation.port))[2])[0] == 200

        busy = installation.manage("run")
        said, _ = busy.communicate(timeout=START_SECONDS)
        assert busy.returncode == 1
        assert f"Port {installation.port} on 127.0.0.1 is busy." in said
        assert installation.get("/readyz")[0] == 200

    assert server.returncode == 0
    assert not installation.database_runs()
    log = "".join(server.lines)  # type: ignore[attr-defined]
    assert link.rpartition("/set-up/")[2] not in log.replace(link, "")


def test_a_request_that_has_begun_is_finished(installation: Installation) -> None:
    body = json.dumps({"jsonrpc": "2.0"}).encode()
    with running(installation) as server, contextlib.closing(installation.connect()) as connection:
        connection.putrequest("POST", "/v1/schema")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:5])
        # Answered after the half request above has arrived, so the server knows of it.
        assert installation.get("/healthz")[0] == 200

        server.send_signal(signal.SIGTERM)
        _await_refusal(installation.port)
        connection.send(body[5:])

        assert connection.getresponse().status in (401, 405)
        assert server.wait(30) == 0
    assert not installation.database_runs()


def _await_refusal(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
    raise AssertionError("the server still takes connections")
