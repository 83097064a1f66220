"""The embedded PostgreSQL on real directories: sharing, crashes and recovery."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from operations.postgres import server
from operations.postgres import server as embedded_postgres
from operations.postgres.server import EmbeddedPostgres, EmbeddedPostgresError

pytestmark = pytest.mark.slow

TMP = Path("/tmp")  # noqa: S108 - where a socket goes whose path would be too long


@pytest.fixture(scope="module")
def stopped() -> Iterator[Path]:
    """Create a used data directory once, because that is slow."""
    with tempfile.TemporaryDirectory(prefix="pdpp-") as directory:
        with embedded_postgres.running(Path(directory), scratch=True):
            pass
        yield Path(directory)


@pytest.fixture
def fresh() -> Iterator[Path]:
    """Return a new directory; stop its server after the test."""
    # Shorter than tmp_path, whose socket would go to /tmp; that is a test of its own.
    with tempfile.TemporaryDirectory(prefix="pdpp-") as directory:
        home = Path(directory) / "postgres"
        yield home
        for process in postgres_processes(home):
            process.kill()
        none_is_left(home)


@pytest.fixture
def home(stopped: Path, fresh: Path) -> Path:
    """Return a copy of a used data directory."""
    return copied(stopped, fresh)


def copied(stopped: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["/bin/cp", "-a", stopped, to], check=True)
    return to


def postgres_processes(home: Path) -> list[psutil.Process]:
    return list(EmbeddedPostgres(home)._server_processes())


def none_is_left(home: Path) -> bool:
    """Wait until no server process is left."""
    deadline = time.monotonic() + 60
    while postgres_processes(home) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not postgres_processes(home)


def ask(home: Path, query: str) -> object:
    with psycopg.connect(embedded_postgres.url(home)) as connection:
        row = connection.execute(query).fetchone()
    return row and row[0]


def tell(home: Path, statement: str) -> None:
    with psycopg.connect(embedded_postgres.url(home)) as connection:
        connection.execute(statement)


def postmaster(home: Path) -> psutil.Process:
    return psutil.Process(int((home / "data/postmaster.pid").read_text().split()[0]))


def test_data_survives_a_restart(home: Path) -> None:
    with embedded_postgres.running(home, scratch=True):
        tell(home, "CREATE TABLE kept AS SELECT 7 AS value")

    assert none_is_left(home)
    with embedded_postgres.running(home, scratch=True):
        assert ask(home, "SELECT value FROM kept") == 7
    assert none_is_left(home)


def test_server_has_a_private_socket_no_port_and_no_superuser(home: Path) -> None:
    with embedded_postgres.running(home):
        assert ask(home, "SHOW listen_addresses") == ""
        assert ask(home, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
        assert ask(home, "SHOW fsync") == "on"
        assert ask(home, "SHOW gin_pending_list_limit") == "64MB"
        assert ask(home, "SHOW server_encoding") == "UTF8"
        assert postmaster(home).net_connections("inet") == []
        assert stat.S_IMODE((home / "socket").stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "data").stat().st_mode) == 0o700


def test_log_contains_no_statements_and_no_values(home: Path) -> None:
    with embedded_postgres.running(home, scratch=True):
        tell(home, "CREATE TABLE t (value text PRIMARY KEY)")
        tell(home, "INSERT INTO t VALUES ('a secret of hers')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            tell(home, "INSERT INTO t VALUES ('a secret of hers')")
        log = (home / "data/server.log").read_text()

    assert "duplicate key" in log
    assert "secret" not in log


@pytest.mark.slow
def test_log_of_changes_stays_small_after_a_large_import(home: Path) -> None:
    url = embedded_postgres.url(home, role=embedded_postgres.SUPERUSER, database="postgres")
    with (
        embedded_postgres.running(home, scratch=True),
        psycopg.connect(url, autocommit=True) as connection,
    ):
        for _ in range(8):
            connection.execute(
                "SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000000))"
                " FROM generate_series(1, 100)"
            )
        connection.execute("CHECKPOINT")
        row = connection.execute("SELECT sum(size) FROM pg_ls_waldir()").fetchone()

    assert row is not None
    size = int(row[0])
    assert size < 300_000_000


def test_last_process_stops_the_server(home: Path) -> None:
    one, other = EmbeddedPostgres(home, scratch=True), EmbeddedPostgres(home, scratch=True)

    one.start()
    other.start()
    one.stop()
    assert ask(home, "SELECT 1") == 1
    other.stop()

    assert none_is_left(home)


def test_orphaned_server_is_reused_and_stopped(home: Path) -> None:
    program = (
        "import sys, os, pathlib; sys.path.insert(0, sys.argv[1])\n"
        "from operations.postgres import server as e\n"
        "e.EmbeddedPostgres(pathlib.Path(sys.argv[2]), scratch=True).start()\n"
        "os.kill(os.getpid(), 9)"
    )
    root = Path(embedded_postgres.__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", program, root, home], check=False)
    assert killed.returncode == -signal.SIGKILL
    left_behind = postmaster(home)

    with embedded_postgres.running(home, scratch=True):
        assert postmaster(home) == left_behind
        assert ask(home, "SELECT 1") == 1

    assert none_is_left(home)


def test_killed_server_recovers(home: Path) -> None:
    with embedded_postgres.running(home):
        tell(home, "CREATE TABLE kept AS SELECT 7 AS value")
        postmaster(home).kill()

    with embedded_postgres.running(home):
        assert ask(home, "SELECT value FROM kept") == 7


def test_lock_file_with_a_foreign_pid_is_stale(home: Path) -> None:
    with embedded_postgres.running(home, scratch=True):
        lock = (home / "data/postmaster.pid").read_text()
        owner = (home / "data/postmaster.pid").stat()
    account = EmbeddedPostgres(home).data.stat().st_uid
    # A process of the same account, which is what PostgreSQL looks at.
    other = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, user=account, cwd="/")
    try:
        stale = lock.replace(lock.split()[0], str(other.pid), 1)
        (home / "data/postmaster.pid").write_text(stale)
        os.chown(home / "data/postmaster.pid", owner.st_uid, owner.st_gid)
        with embedded_postgres.running(home, scratch=True):
            assert ask(home, "SELECT 1") == 1
    finally:
        other.communicate()


def test_partial_cluster_is_created_again(fresh: Path) -> None:
    (fresh / "data.unfinished").mkdir(parents=True)
    (fresh / "data.unfinished/PG_VERSION").write_text("18\n")

    with embedded_postgres.running(fresh, scratch=True):
        assert ask(fresh, "SELECT 1") == 1


def test_long_path_uses_a_private_socket_in_tmp(stopped: Path, fresh: Path) -> None:
    deep = copied(stopped, fresh / ("deep" * 30))
    with embedded_postgres.running(deep, scratch=True):
        elsewhere = embedded_postgres.socket_directory(deep)
        assert elsewhere.parent == TMP
        assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700
        assert ask(deep, "SELECT 1") == 1
    elsewhere.rmdir()


@pytest.mark.parametrize("odd", ["it's", "a,b", 'q"q', "back\\slash"])
def test_path_that_needs_quoting_uses_a_socket_in_tmp(odd: str, tmp_path: Path) -> None:
    assert embedded_postgres.socket_directory(tmp_path / odd).parent == TMP

    short = TMP / "with space and ü"
    assert embedded_postgres.socket_directory(short) == short / "socket"


def test_path_with_spaces_and_unicode_works(stopped: Path, fresh: Path) -> None:
    odd = copied(stopped, fresh / "my data ü")
    with embedded_postgres.running(odd, scratch=True):
        assert ask(odd, "SELECT 1") == 1


def test_foreign_directory_in_tmp_is_refused(stopped: Path, fresh: Path) -> None:
    deep = copied(stopped, fresh / ("deep" * 30))
    elsewhere = embedded_postgres.socket_directory(deep)
    elsewhere.symlink_to(TMP)
    try:
        with pytest.raises(EmbeddedPostgresError, match="is not a private directory"):
            EmbeddedPostgres(deep, scratch=True).start()
    finally:
        elsewhere.unlink()


def test_symlink_target_in_tmp_keeps_its_owner(stopped: Path, fresh: Path, tmp_path: Path) -> None:
    deep = copied(stopped, fresh / ("deep" * 30))
    elsewhere = embedded_postgres.socket_directory(deep)
    (tmp_path / "victim").mkdir()
    elsewhere.symlink_to(tmp_path / "victim")
    try:
        with pytest.raises(EmbeddedPostgresError):
            EmbeddedPostgres(deep, scratch=True).start()
    finally:
        elsewhere.unlink()

    assert (tmp_path / "victim").stat().st_uid == os.geteuid()


def test_unresponsive_server_is_reported(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = EmbeddedPostgres(home, scratch=True)
    server.start()
    monkeypatch.setattr(embedded_postgres, "STOP_SECONDS", 0)
    monkeypatch.setattr(embedded_postgres, "CONNECT_TIMEOUT_SECONDS", 2)
    hanging = postmaster(home)
    hanging.suspend()
    try:
        with pytest.raises(EmbeddedPostgresError, match="runs but does not respond"):
            EmbeddedPostgres(home, scratch=True).start()
    finally:
        hanging.resume()
    monkeypatch.undo()
    server.stop()


def test_failed_start_shows_the_server_log(home: Path) -> None:
    with embedded_postgres.running(home, scratch=True):
        pass
    (home / "data/global/pg_control").unlink()

    with pytest.raises(EmbeddedPostgresError, match="pg_control"):
        EmbeddedPostgres(home, scratch=True).start()


def test_root_switches_account_and_others_do_not(fresh: Path) -> None:
    with embedded_postgres.running(fresh, scratch=True):
        runs_as = postmaster(fresh).uids().effective

    if os.geteuid() == 0:
        assert runs_as != 0
        assert server.server_account(fresh / "data").pw_uid == runs_as  # type: ignore[union-attr]
    else:
        assert runs_as == os.geteuid()
        assert server.server_account(fresh / "data") is None


@pytest.mark.parametrize("written", [None, "3"])
def test_data_of_another_version_of_pdpp_is_refused_and_not_touched(
    home: Path, written: str | None
) -> None:
    file = home / server.FORMAT_FILE
    assert file.read_text() == server.FORMAT
    file.unlink() if written is None else file.write_text(written)
    before = {path: path.lstat().st_mtime_ns for path in home.rglob("*")}

    with pytest.raises(EmbeddedPostgresError, match=r"Nothing was changed\. Move the folder away"):
        EmbeddedPostgres(home).start()

    assert {path: path.lstat().st_mtime_ns for path in home.rglob("*")} == before
    assert postgres_processes(home) == []
