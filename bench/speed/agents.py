"""Measure how long an agent that starts `mcp_stdio` waits for the first response."""

import contextlib
import json
import subprocess
import sys
import time

from bench.served import ROOT
from bench.speed.installation import FailedError, Installation

STARTS = 3
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}


def seconds_to_initialize(installation: Installation, bearer: str) -> float:
    """Return the median seconds of a few starts, while the database runs."""
    return sorted(_start_once(installation, bearer) for _ in range(STARTS))[STARTS // 2]


def _start_once(installation: Installation, bearer: str) -> float:
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "manage.py", "mcp_stdio"],
        cwd=ROOT,
        env=installation.environment(PDPP_MCP_TOKEN=bearer),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise FailedError("no pipes")
        process.stdin.write(json.dumps(_INITIALIZE) + "\n")
        process.stdin.flush()
        response = process.stdout.readline()
        seconds = time.perf_counter() - started
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.terminate()
    if '"serverInfo"' not in response:
        raise FailedError(f"mcp_stdio returned {response[:200]!r}")
    return seconds
