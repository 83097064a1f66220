"""What a person has after a clone: a directory, a port and ``manage.py``, run as processes."""

import contextlib
import http.client
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from operations.postgres.server import EmbeddedPostgres
from tests.pdpp_site.web import free_port

ROOT = Path(__file__).resolve().parents[2]
# Far more than it takes; a busy machine shall not fail the test.
START_SECONDS = 300


@dataclass
class Installation:
    """Without the demo life, which takes its time and has tests of its own."""

    var: Path
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def manage(self, *arguments: str, **more: str) -> "subprocess.Popen[str]":
        """Standard error goes where standard output goes, unless ``stdin`` is wanted."""
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def environment(self, **more: str) -> dict[str, str]:
        """This installation's own, its ``settings`` and ``more``."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PDPP_")}
        inherited.pop("DATABASE_URL", None)
        chosen = {"PDPP_VAR": str(self.var), "PDPP_PORT": str(self.port), "PDPP_DEMO": "false"}
        return inherited | chosen | dict(self.settings) | more

    def say(self, *arguments: str, given: str = "", **more: str) -> "Said":
        """Run a command to its end."""
        command = self.manage(*arguments, **more)
        out, err = command.communicate(given, timeout=START_SECONDS)
        return Said(command.returncode, out, err)

    def get(self, path: str) -> tuple[int, bytes]:
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def database_runs(self) -> bool:
        return any(EmbeddedPostgres(self.var / "postgres")._server_processes())


@dataclass(frozen=True)
class Said:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


@dataclass
class Running:
    """A server and all it has printed so far."""

    process: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list)
    welcomed: threading.Event = field(default_factory=threading.Event)

    def follow(self, stream: Iterator[str]) -> None:
        for line in stream:
            self.lines.append(line)
            if "/set-up/" in line or "manage.py setup-link" in line:
                self.welcomed.set()

    @property
    def printed(self) -> str:
        return "".join(self.lines)


@contextlib.contextmanager
def installed(within: Path | None = None) -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="pdpp-", dir=within) as directory:
        yield Installation(Path(directory) / "var", free_port())


@contextlib.contextmanager
def running(installation: Installation, **more: str) -> Iterator[Running]:
    """The server from its welcome to its end."""
    process = installation.manage("run", **more)
    server = Running(process)
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    readers = [threading.Thread(target=server.follow, args=[stream]) for stream in streams]
    for reader in readers:
        reader.start()
    try:
        assert server.welcomed.wait(START_SECONDS), server.printed
        yield server
    finally:
        process.terminate()
        process.wait(START_SECONDS)
        for reader in readers:
            reader.join(5)
        for stream in (process.stdin, *streams):
            if stream is not None:
                stream.close()
