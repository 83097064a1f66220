"""The database goes away, fills up or has no connection left, and comes back."""

import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import httpx2
import psycopg
import pytest

from operations.postgres.server import EmbeddedPostgres, EmbeddedPostgresError, server_account
from tests.faults.load import Load, hold_to_account
from tests.pdpp_site.installation import Installation, installed, running
from tests.pdpp_site.living import cast_in
from tests.world import PERSONAL

pytestmark = pytest.mark.faults


def postgres(installation: Installation) -> EmbeddedPostgres:
    """The server of an installation, for a test to be rough with."""
    server = EmbeddedPostgres(installation.var / "postgres")
    server.account = server_account(server.data)
    return server


def restart(installation: Installation, mode: str) -> None:
    server = postgres(installation)
    # Without a log of its own it would keep the end of our pipe.
    log = str(server.data / "server.log")
    # The server may be quicker to start it again than we are.
    with contextlib.suppress(EmbeddedPostgresError):
        server._run("pg_ctl", "restart", "-w", "-m", mode, "-l", log)


def postmaster(installation: Installation) -> int:
    data = installation.var / "postgres/data"
    return int((data / "postmaster.pid").read_text().split("\n", 1)[0])


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_database_that_restarts_under_load_is_missed_and_found_again(mode: str) -> None:
    with installed() as installation, running(installation):
        cast = cast_in(installation)
        load = Load(cast, mode)
        with load.going_on():
            for _ in range(3):
                load.progress()
                restart(installation, mode)
                load.progress()
        assert load.broken == 0, "the server itself went away"
        hold_to_account(cast, load)


def test_a_backend_that_is_killed_takes_no_answer_with_it() -> None:
    with installed() as installation, running(installation):
        cast = cast_in(installation)
        load = Load(cast, "backend")
        with load.going_on():
            load.progress()
            with psycopg.connect(cast.database) as database:
                pids = database.execute(
                    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
                    " AND pid <> pg_backend_pid()"
                ).fetchall()
            for (pid,) in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            load.progress()
        assert load.broken == 0
        hold_to_account(cast, load)


def test_an_embedded_database_that_is_killed_is_started_again() -> None:
    with installed() as installation, running(installation):
        cast = cast_in(installation)
        load = Load(cast, "postmaster")
        with load.going_on():
            load.progress()
            os.kill(postmaster(installation), signal.SIGKILL)
            load.refusals("service_unavailable")
            load.progress()
        assert load.broken == 0
        hold_to_account(cast, load)


@contextlib.contextmanager
def small_disk(directory: Path, *, megabytes: int) -> Iterator[Path]:
    directory.mkdir()
    mounting = [
        "mount",
        "-t",
        "tmpfs",
        "-o",
        f"size={megabytes}m,mode=0755",
        "none",
        str(directory),
    ]
    unmounting = ["umount", "-l", str(directory)]
    if subprocess.run(mounting, check=False, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a small disk")
    try:
        yield directory
    finally:
        subprocess.run(unmounting, check=True)


def test_a_full_disk_loses_nothing_and_room_on_it_is_enough(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", megabytes=400) as disk,
        installed(within=disk) as installation,
        running(installation),
    ):
        cast = cast_in(installation)
        load = Load(cast, "full", body=os.urandom(50_000).hex())
        with load.going_on():
            load.progress()
            filler = disk / "filler"
            with filler.open("wb") as file, contextlib.suppress(OSError):
                while True:
                    file.write(os.urandom(1024 * 1024))
                    file.flush()
            load.refusals("service_unavailable", more=20)
            filler.unlink()
            load.progress()
        assert load.broken == 0
        hold_to_account(cast, load)


def test_no_connection_left_is_said_and_nothing_else_is_harmed() -> None:
    # Each caller has two turns. Those that got a connection wait for the lock, the others for one.
    own = {"PDPP_DATABASE_POOL": "2", "PDPP_STATEMENT_TIMEOUT": "60"}
    with installed() as installation, running(installation, **own):
        cast = cast_in(installation)
        callers = ("alice", "bob", "dora") * 2
        query = {"connection_id": PERSONAL, "limit": "1"}

        def read(number: int) -> httpx2.Response:
            with cast.http(callers[number]) as http:
                return http.get("/v1/streams/messages/records", params=query)

        with ThreadPoolExecutor(6) as readers:
            with psycopg.connect(cast.database) as database:
                database.execute("LOCK TABLE evidence_disclosure IN ACCESS EXCLUSIVE MODE")
                waiting = [readers.submit(read, number) for number in range(6)]
                refused = list(itertools.islice(as_completed(waiting), 4))
                with cast.http() as http:
                    assert http.get("/healthz").status_code == 200
                database.rollback()
            done = [each.result() for each in waiting]
        assert {each.result().status_code for each in refused} == {503}
        # Of two connections the background may hold one.
        assert {answer.status_code for answer in done} == {200, 503}
        for answer in done:
            if answer.status_code == 503:
                assert answer.json()["error"]["code"] == "service_unavailable"
                assert int(answer.headers["retry-after"]) > 0
        load = Load(cast, "after")
        with load.going_on():
            load.progress()
        hold_to_account(cast, load)
