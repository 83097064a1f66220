"""How soon an agent that starts the server on its own standard input gets its first answer."""

import contextlib
import json
import subprocess
import sys
import time

from bench.served import ROOT
from bench.speed.installation import FailedError, Installation

TIMES = 3
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
    """The median of a few starts, while the database runs."""
    return sorted(_once(installation, bearer) for _ in range(TIMES))[TIMES // 2]


def _once(installation: Installation, bearer: str) -> float:
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "manage.py", "mcp_stdio"],
        cwd=ROOT,
        env=installation.environment(PDPP_ACCESS_TOKEN=bearer),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise FailedError("no pipes")
        process.stdin.write(json.dumps(_INITIALIZE) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        took = time.perf_counter() - began
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.terminate()
    if '"serverInfo"' not in answer:
        raise FailedError(f"mcp_stdio said {answer[:200]!r}")
    return took
