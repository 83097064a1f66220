"""An installation of its own with the demo life, served as a process, for as long as it is needed.

It is kept under `var/bench`, so that the demo life is loaded once; `rm -r var/bench` starts anew.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_START_SECONDS = 600
_TOKEN = re.compile(r"pdpp_at_[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Served:
    """Where it is and the two tokens over the demo life that it printed."""

    url: str
    mcp_token: str
    rest_token: str


@contextlib.contextmanager
def demo_installation() -> Iterator[Served]:
    """Start it, wait for its welcome, and stop it at the end. Raises `TimeoutError`."""
    port = _free_port()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PDPP_")}
    inherited.pop("DATABASE_URL", None)
    process = subprocess.Popen(
        [sys.executable, "manage.py", "run"],
        cwd=ROOT,
        env={
            **inherited,
            "PDPP_VAR": str(ROOT / "var" / "bench"),
            "PDPP_PORT": str(port),
            "PDPP_LOG_LEVEL": "WARNING",
            "PDPP_TRIPWIRE_SHARE": "0",  # what measures reads everything, and again
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        tokens = _printed_tokens(process)
        yield Served(f"http://127.0.0.1:{port}", *tokens)
    finally:
        process.terminate()
        process.wait(60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _printed_tokens(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """The token for MCP and the one for REST, in the order in which the welcome prints them."""
    found: dict[str, None] = {}
    lines: list[str] = []

    def follow() -> None:
        for line in process.stdout or ():
            lines.append(line)
            found.update(dict.fromkeys(_TOKEN.findall(line)))

    threading.Thread(target=follow, daemon=True).start()
    deadline = time.monotonic() + _START_SECONDS
    while len(found) < 2:
        if process.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError("".join(lines))
        time.sleep(0.2)
    first, second, *_ = found
    return first, second
