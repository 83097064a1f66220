"""Several servers on one database, behind nginx; two of the three through PgBouncer.

They start together on an empty database, are read and written at once, and one of them is killed.
"""

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.deploy.fronts import Front, front, nginx, ports
from tests.deploy.pooling import FEW, pgbouncer
from tests.deploy.servers import SECRET_KEY, Served, cast, database, environment, one_of_several
from tests.deploy.shipped import ROOT
from tests.pdpp_site.web import free_port
from tests.world import PERSONAL

CLIENTS, ROUNDS = 6, 12
DIRECT = "past PgBouncer"
MAIL = "/v1/streams/messages/records"
CALL = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {"name": "search", "arguments": {"q": "lease", "limit": 3}},
}  # fmt: skip


@dataclass
class Several:
    way: Front
    servers: list[Served]
    tokens: dict[str, str]
    url: str


@pytest.mark.slow
def test_several_servers_share_a_database_and_outlive_one_another(tmp_path: Path) -> None:
    """One test, as it takes three servers to begin with."""
    with running(tmp_path) as several:
        _migrated_once(several)
        _reading_and_writing_loses_and_doubles_nothing(several)
        _the_ledger_is_whole(several)
        _jobs_of_a_killed_server_are_done_by_others(several)


@contextlib.contextmanager
def running(var: Path) -> Iterator[Several]:
    chosen, listening = ports(), [free_port() for _ in range(3)]
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(3) as together:
        url = stack.enter_context(database())
        pooled = stack.enter_context(pgbouncer(url))

        def start(port: int) -> Served:
            if port == listening[0]:
                way = {"url": url, "PGAPPNAME": DIRECT}
            else:
                way = {"url": pooled, "PDPP_PGBOUNCER": "true"}
            server = one_of_several(var, port=port, PDPP_PUBLIC_URL=chosen.url, **way)
            return stack.enter_context(server)

        servers = list(together.map(start, listening))
        tokens = cast(url)
        way = stack.enter_context(front(nginx, chosen, listening))
        yield Several(way, servers, tokens, url)


def _migrated_once(several: Several) -> None:
    with psycopg.connect(several.url) as connection:
        doubled = connection.execute(
            "SELECT app, name FROM django_migrations GROUP BY 1, 2 HAVING count(*) > 1"
        ).fetchall()

    assert doubled == []


def _reading_and_writing_loses_and_doubles_nothing(several: Several) -> None:
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda number: _client(several, number), range(CLIENTS)))

    with several.way.client() as client:
        listed = set(_all(client, several.tokens["alice"], {"connection_id": PERSONAL}))
        changed = list(_changes(client, several.tokens["alice"]))
    written = {f"n{number}-{turn}" for number in range(CLIENTS) for turn in range(ROUNDS)}
    assert written <= listed
    assert sorted(changed) == sorted(listed)
    for server in several.servers:
        assert "/v1/" in server.printed
        assert not re.search(r" 500 \d| ERROR |Traceback|Exception in", server.printed)
    with psycopg.connect(several.url) as connection:
        [used] = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> %s",
            [DIRECT],
        ).fetchone() or [0]
    assert 0 < used <= FEW


def _client(several: Several, number: int) -> None:
    tokens = several.tokens
    with several.way.client() as client:
        for turn in range(ROUNDS):
            line = {"key": f"n{number}-{turn}", "emitted_at": "2026-11-01T00:00:00Z", "data": {
                "id": f"n{number}-{turn}", "subject": f"lease {number}",
                "received_at": f"2026-05-{turn + 1:02}T00:00:00Z"}}  # fmt: skip
            for answer in (
                client.post(
                    f"/v1/ingest/messages?connector_id=mail&connection_id={PERSONAL}",
                    headers=_bearer(tokens["alice"]),
                    content=json.dumps(line),
                ),
                client.get(MAIL, params={"limit": "5", "connection_id": PERSONAL},
                           headers=_bearer(tokens["dora"])),
                client.get("/v1/search", params={"q": "lease"}, headers=_bearer(tokens["dora"])),
                client.post("/mcp", json=CALL, headers={
                    **_bearer(tokens["dora@mcp"]), "Accept": "application/json, text/event-stream"}),
            ):  # fmt: skip
                assert answer.status_code == 200, answer.text
            assert not answer.json()["result"].get("isError")


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _all(client: httpx2.Client, token: str, more: dict[str, str]) -> Iterator[str]:
    params = {"limit": "100", **more}
    while True:
        page: Any = client.get(MAIL, params=params, headers=_bearer(token)).json()
        yield from (each["id"] for each in page["data"])
        if not page["has_more"]:
            return
        params = {**params, "cursor": page["next_cursor"]}


def _changes(client: httpx2.Client, token: str) -> Iterator[str]:
    return _all(client, token, {"connection_id": PERSONAL, "changes_since": "beginning"})


def _the_ledger_is_whole(several: Several) -> None:
    given = environment(DATABASE_URL=several.url, PDPP_SECRET_KEY=SECRET_KEY)
    verified = subprocess.run(
        [sys.executable, "manage.py", "ledger", "verify"],
        cwd=ROOT, env=given, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert verified.returncode == 0, verified.stdout + verified.stderr


def _jobs_of_a_killed_server_are_done_by_others(several: Several) -> None:
    first = several.servers[0]

    first.process.send_signal(signal.SIGKILL)
    with several.way.client() as client:
        for _ in range(10):
            answer = client.get(MAIL, params={"connection_id": PERSONAL, "limit": "1"},
                                headers=_bearer(several.tokens["dora"]))  # fmt: skip
            assert answer.status_code == 200, answer.text

    deadline = time.monotonic() + 60
    with psycopg.connect(several.url, autocommit=True) as database:
        while True:
            database.execute("SELECT pg_notify('pdpp_jobs', '')")
            rows = database.execute(
                "SELECT name FROM operations_job WHERE worker LIKE %s AND name <> ALL(%s)",
                [f"% {first.process.pid} %", ["upkeep", "notifications"]],  # no commit wakes these
            ).fetchall()
            if not rows:
                return
            assert time.monotonic() < deadline, rows
            time.sleep(0.5)
