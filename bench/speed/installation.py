"""An installation of its own for one corpus: loaded once, served as processes, watched from outside."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.served import ROOT
from bench.speed.corpus import Corpus

MIB = 1024 * 1024
_START_SECONDS = 300
_WATCH_SECONDS = 0.1
_LONGEST_MIB = 32


class FailedError(Exception):
    """A process of the installation did not do what it was told."""


@dataclass
class Watched:
    """The most memory that a process has held, in MiB."""

    mib: float = 0.0


class Installation:
    """A directory with an embedded PostgreSQL, and the commands that work on it."""

    def __init__(self, var: Path) -> None:
        self.var = var

    @property
    def notes(self) -> dict[str, Any]:
        """What was measured and issued when it was loaded; empty before."""
        file = self.var / "loaded.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def note(self, facts: dict[str, Any]) -> None:
        (self.var / "loaded.json").write_text(json.dumps(facts))

    def environment(self, *, port: int = 8000, **more: str) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PDPP_")}
        inherited.pop("DATABASE_URL", None)
        own = {"PDPP_VAR": str(self.var), "PDPP_DEMO": "false", "PDPP_PORT": str(port)}
        own["PDPP_TRIPWIRE_SHARE"] = "0"  # the export reads everything
        own["PDPP_EMBEDDER"] = "none"  # or it makes vectors meanwhile, where their packages are
        return inherited | own | more

    def manage(self, *arguments: str) -> str:
        """The standard output of a command. Raises `FailedError`."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise FailedError(f"manage.py {arguments[0]}: {done.stderr[-2000:]}")
        return done.stdout

    def ingest(self, corpus: Corpus) -> dict[str, float]:
        """Load it with the command that an owner would use; values by name: time, memory, CPU."""
        command = [
            "manage.py",
            "ingest",
            str(corpus.path),
            "--set-up",
            "--longest",
            str(_LONGEST_MIB),
        ]
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        with watching(process.pid) as watched, cpu_of(process.pid) as cpu:
            _, complaint = process.communicate()
        took = time.perf_counter() - began
        if process.returncode != 0:
            raise FailedError(f"manage.py ingest: {complaint[-2000:]}")
        return {
            "ingest, seconds": took,
            "ingest, records a second": corpus.size / took,
            "ingest, MiB": watched.mib,
            "ingest, CPU microseconds a record": cpu.seconds / corpus.size * 1e6,
        }

    @contextlib.contextmanager
    def serving(self, *arguments: str) -> Iterator["Serving"]:
        """A server, from its first answer to its end; `manage.py run` unless told otherwise."""
        port = free_port()
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *(arguments or ("manage.py", "run"))],
            cwd=ROOT,
            env=self.environment(port=port),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _await_answer(process, port)
            took = time.perf_counter() - began
            with watching(process.pid) as watched:
                yield Serving(process.pid, port, took, watched)
        finally:
            process.terminate()
            process.wait(60)

    @property
    def postmaster(self) -> int:
        """The first process of the embedded PostgreSQL, while it runs."""
        lines = (self.var / "postgres" / "data" / "postmaster.pid").read_text().splitlines()
        return int(lines[0])


@dataclass(frozen=True)
class Serving:
    """A server that answers; `started` are the seconds to its first answer."""

    pid: int
    port: int
    started: float
    watched: Watched


@dataclass
class Cpu:
    """CPU seconds of a process and of whatever worked for it in the database."""

    seconds: float = 0.0


@contextlib.contextmanager
def watching(pid: int) -> Iterator[Watched]:
    """Look at the memory of a process and its children now and then, and keep the most."""
    watched, over = Watched(), threading.Event()

    def look() -> None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            while not over.wait(_WATCH_SECONDS):
                family = [process, *_helpers(process)]
                total = sum(_resident(each) for each in family) / MIB
                watched.mib = max(watched.mib, total)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def cpu_of(pid: int) -> Iterator[Cpu]:
    """What a process and its helpers use, noted a little before it ends."""
    cpu, over = Cpu(), threading.Event()

    def look() -> None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            while not over.wait(_WATCH_SECONDS):
                cpu.seconds = max(cpu.seconds, sum(map(_cpu, [process, *_helpers(process)])))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield cpu
    finally:
        over.set()
        thread.join()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _helpers(process: psutil.Process) -> list[psutil.Process]:
    """Its own children; not PostgreSQL, whose memory is mostly shared."""
    return [each for each in process.children(recursive=True) if each.name() != "postgres"]


def _resident(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        resident: int = process.memory_info().rss
        return resident
    return 0


def _cpu(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def _await_answer(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise FailedError(f"No server answered on port {port}.")
