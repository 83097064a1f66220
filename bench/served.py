"""Run a separate installation with the demo data as a process.

It stays in `var/bench`, so the demo data is loaded only once. `rm -r var/bench` resets it.
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
_SET_UP = re.compile(r"http\S+/set-up/\S+")
_TOKEN = re.compile(r"pdpp_at_[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class DemoServer:
    """The URL of a running server, its two demo tokens, and the link that sets up the owner."""

    url: str
    mcp_token: str
    rest_token: str
    set_up_url: str


@contextlib.contextmanager
def demo_installation(*, var: Path | None = None, **environment: str) -> Iterator[DemoServer]:
    """Run the server during the block, with its data in `var`. Raises TimeoutError if it does not start."""
    port = free_port()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PDPP_")}
    inherited.pop("DATABASE_URL", None)
    process = subprocess.Popen(
        [sys.executable, "manage.py", "run"],
        cwd=ROOT,
        env={
            **inherited,
            "PDPP_VAR": str(var or ROOT / "var" / "bench"),
            "PDPP_PORT": str(port),
            "PDPP_LOG_LEVEL": "WARNING",
            "PDPP_TRIPWIRE_SHARE": "0",  # benchmarks read everything repeatedly
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        tokens, link = _printed(process)
        yield DemoServer(f"http://127.0.0.1:{port}", *tokens, link)
    finally:
        process.terminate()
        process.wait(60)


def free_port() -> int:
    """Return a local TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _printed(process: "subprocess.Popen[str]") -> tuple[tuple[str, str], str]:
    """Return the MCP and the REST token, in the order of the startup banner, and the set-up link."""
    tokens: dict[str, None] = {}
    lines: list[str] = []

    def follow() -> None:
        for line in process.stdout or ():
            lines.append(line)
            tokens.update(dict.fromkeys(_TOKEN.findall(line)))

    threading.Thread(target=follow, daemon=True).start()
    deadline = time.monotonic() + _START_SECONDS
    while len(tokens) < 2:
        if process.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError("".join(lines))
        time.sleep(0.2)
    first, second, *_ = tokens
    link = _SET_UP.search("".join(lines))
    return (first, second), link[0] if link else ""
