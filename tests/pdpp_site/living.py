"""A real server with the cast of ``tests.world`` in it, and programs that speak to it."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from operations.postgres import server as embedded_postgres
from tests.pdpp_site.installation import ROOT, START_SECONDS, Installation, Running, running

MCP_HEADERS = {"Accept": "application/json, text/event-stream"}


@dataclass(frozen=True)
class Cast:
    """Who holds which token of an installation."""

    installation: Installation
    tokens: Mapping[str, str]

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.installation.port}"

    @property
    def database(self) -> str:
        """Where a test looks behind everybody's back."""
        embedded = embedded_postgres.url(self.installation.var / "postgres")
        return self.installation.settings.get("DATABASE_URL", embedded)

    def http(self, who: str | None = None, **more: Any) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        return httpx2.Client(base_url=self.origin, headers=headers, timeout=60, **more)

    def call_tool(self, http: httpx2.Client, name: str, **arguments: Any) -> httpx2.Response:
        params = {"name": name, "arguments": arguments}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return http.post("/mcp", json=call, headers=MCP_HEADERS)


def cast_in(installation: Installation) -> Cast:
    """The cast, put into a server that runs."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.pdpp_site.prepared"],
        cwd=ROOT,
        env=installation.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=START_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return Cast(installation, json.loads(done.stdout))


@contextlib.contextmanager
def living(installation: Installation, **more: str) -> Iterator[tuple[Running, Cast]]:
    """The server with the cast in it, until the block ends."""
    with running(installation, **more) as server:
        yield server, cast_in(installation)
