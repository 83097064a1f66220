"""Load a corpus into a separate installation, serve it, and measure its processes."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.served import ROOT, free_port
from bench.speed.corpus import Corpus

MIB = 1024 * 1024
_START_SECONDS = 300
_SAMPLE_SECONDS = 0.1
_LONGEST_MIB = 32


class FailedError(Exception):
    """A process of the installation failed."""


@dataclass
class MemoryPeak:
    """The peak memory of a process, in MiB."""

    mib: float = 0.0


class Installation:
    """A directory with an embedded PostgreSQL, and commands for it."""

    def __init__(self, var: Path) -> None:
        self.var = var

    @property
    def notes(self) -> dict[str, Any]:
        """The measurements and tokens of the load, or an empty dict before it."""
        file = self.var / "loaded.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def save_notes(self, notes: dict[str, Any]) -> None:
        (self.var / "loaded.json").write_text(json.dumps(notes))

    def environment(self, *, port: int = 8000, **variables: str) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PDPP_")}
        inherited.pop("DATABASE_URL", None)
        own = {"PDPP_VAR": str(self.var), "PDPP_DEMO": "false", "PDPP_PORT": str(port)}
        own["PDPP_TRIPWIRE_SHARE"] = "0"  # the export reads everything
        own["PDPP_EMBEDDER"] = "none"  # embedding would run during the measurement
        return inherited | own | variables

    def manage(self, *arguments: str) -> str:
        """Run a command and return its standard output. Raises FailedError."""
        process = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode != 0:
            raise FailedError(f"manage.py {arguments[0]}: {process.stderr[-2000:]}")
        return process.stdout

    def ingest(self, corpus: Corpus) -> dict[str, float]:
        """Load a corpus with `manage.py ingest` and return time, memory and CPU by name."""
        command = [
            "manage.py",
            "ingest",
            str(corpus.path),
            "--set-up",
            "--longest",
            str(_LONGEST_MIB),
        ]
        started_at = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        with track_memory(process.pid) as memory, track_cpu(process.pid) as cpu:
            _, errors = process.communicate()
        seconds = time.perf_counter() - started_at
        if process.returncode != 0:
            raise FailedError(f"manage.py ingest: {errors[-2000:]}")
        return {
            "ingest, seconds": seconds,
            "ingest, records a second": corpus.size / seconds,
            "ingest, MiB": memory.mib,
            "ingest, CPU microseconds a record": cpu.seconds / corpus.size * 1e6,
        }

    @contextlib.contextmanager
    def serving(self, *arguments: str) -> Iterator["RunningServer"]:
        """Run a server process during the block, by default `manage.py run`."""
        port = free_port()
        started_at = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *(arguments or ("manage.py", "run"))],
            cwd=ROOT,
            env=self.environment(port=port),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait_for_port(process, port)
            seconds = time.perf_counter() - started_at
            with track_memory(process.pid) as memory:
                yield RunningServer(process.pid, port, seconds, memory)
        finally:
            process.terminate()
            process.wait(60)

    @property
    def postmaster(self) -> int:
        """The process id of the running embedded PostgreSQL."""
        lines = (self.var / "postgres" / "data" / "postmaster.pid").read_text().splitlines()
        return int(lines[0])


@dataclass(frozen=True)
class RunningServer:
    """A running server. `started` is the number of seconds until it accepted connections."""

    pid: int
    port: int
    started: float
    memory: MemoryPeak


@dataclass
class CpuTime:
    """CPU seconds of a process and its children."""

    seconds: float = 0.0


@contextlib.contextmanager
def track_memory(pid: int) -> Iterator[MemoryPeak]:
    """Sample the memory of a process and its children, and keep the maximum."""
    memory = MemoryPeak()

    def sample(family: list[psutil.Process]) -> None:
        memory.mib = max(memory.mib, sum(map(_resident, family)) / MIB)

    with _sampling(pid, sample):
        yield memory


@contextlib.contextmanager
def track_cpu(pid: int) -> Iterator[CpuTime]:
    """Sample the CPU time of a process and its children until shortly before it ends."""
    cpu = CpuTime()

    def sample(family: list[psutil.Process]) -> None:
        cpu.seconds = max(cpu.seconds, sum(map(_cpu, family)))

    with _sampling(pid, sample):
        yield cpu


@contextlib.contextmanager
def _sampling(pid: int, sample: Callable[[list[psutil.Process]], None]) -> Iterator[None]:
    """Call `sample` with a process and its children in regular intervals during the block."""
    stopped = threading.Event()

    def run() -> None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            while not stopped.wait(_SAMPLE_SECONDS):
                sample([process, *_children(process)])

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _children(process: psutil.Process) -> list[psutil.Process]:
    """Return the children except PostgreSQL, whose memory is mostly shared."""
    return [child for child in process.children(recursive=True) if child.name() != "postgres"]


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


def _wait_for_port(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise FailedError(f"No server listens on port {port}.")
