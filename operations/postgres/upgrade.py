"""The embedded database under a newer PostgreSQL: dumped by the new one's tools, loaded, compared.

The old data stays as it is until every table of the new database has as many rows, and beside it
afterwards. A run that was cut short is begun again, or ended where only the last step was missing.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from operations.postgres import server as embedded_postgres
from operations.postgres.installation import major_of_data, major_of_programs, programs_of
from operations.postgres.server import NEXT, SUPERUSER, EmbeddedPostgres, url
from operations.postgres.system_account import EmbeddedPostgresError

COMPLETE = "complete"
"""Lies in ``next`` once all of the old database is there."""

TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname NOT LIKE 'pg\\_%' ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """From which version to which; ``rows`` is None where another run had copied them already."""

    old: int
    new: int
    rows: int | None
    kept: Path


def upgrade(home: Path, *, programs: Path | None = None) -> Upgraded | None:
    """None where there is nothing to upgrade. Raises ``EmbeddedPostgresError``, and then the old
    database is as it was."""
    data, new = home / "data", major_of_programs(embedded_postgres.binaries())
    if not data.exists():
        return _ended(home, new, None) if (home / NEXT / COMPLETE).exists() else None
    old = major_of_data(data)
    if old == new:
        return None
    _require_room(home, old)
    _require_unused(home)
    try:
        rows = _copied(home, programs or programs_of(old))
    except psycopg.Error as error:
        raise EmbeddedPostgresError(f"Nothing is changed: {error}") from error
    (home / NEXT / COMPLETE).write_text(str(old))
    data.rename(_kept(home, old))
    return _ended(home, new, rows)


def _ended(home: Path, new: int, rows: int | None) -> Upgraded:
    """The old data is out of the way, the new takes its place."""
    old = int((home / NEXT / COMPLETE).read_text())
    (home / NEXT / "data").rename(home / "data")
    shutil.rmtree(home / NEXT)
    return Upgraded(old, new, rows, _kept(home, old))


def _kept(home: Path, old: int) -> Path:
    return home / f"data.{old}"


def _copied(home: Path, programs: Path) -> int:
    """All rows of the old database in a new one under ``next``; how many."""
    shutil.rmtree(home / NEXT, ignore_errors=True)
    old, new = EmbeddedPostgres(home, programs=programs), EmbeddedPostgres(home / NEXT)
    with _running(old), _running(new):
        source, target = (url(each.home, role=SUPERUSER) for each in (old, new))
        _pipe(source, target)
        before, after = _counted(source), _counted(target)
    if before != after:
        raise EmbeddedPostgresError(
            "The copy has not all rows of the original; nothing is changed."
        )
    return sum(before.values())


@contextlib.contextmanager
def _running(server: EmbeddedPostgres) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop()


def _pipe(source: str, target: str) -> None:
    """One transaction; indexes are made after the rows, statistics at the end."""
    programs = embedded_postgres.binaries()
    dump = [str(programs / "pg_dump"), "--no-password", f"--dbname={source}"]
    load = [
        *(
            str(programs / "psql"),
            "--no-psqlrc",
            "--quiet",
            "--no-password",
            "--single-transaction",
        ),
        *("--set=ON_ERROR_STOP=1", "--command=SET client_min_messages = warning", "--file=-"),
        *("--command=ANALYZE", f"--dbname={target}"),
    ]
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    with subprocess.Popen(dump, stdout=subprocess.PIPE, env=environment) as dumping:
        loading = subprocess.run(
            load, stdin=dumping.stdout, stdout=subprocess.DEVNULL, env=environment, check=False
        )
        if loading.returncode != 0:
            dumping.kill()
    if dumping.returncode or loading.returncode:
        raise EmbeddedPostgresError("The database could not be copied; nothing is changed.")


def _counted(server: str) -> dict[str, int]:
    with psycopg.connect(server) as connection:
        counts = {}
        for schema, table in connection.execute(TABLES).fetchall():
            name = sql.Identifier(schema, table)
            counting = sql.SQL("SELECT count(*) FROM {}").format(name)
            [counts[f"{schema}.{table}"]] = connection.execute(counting).fetchone() or [0]
    return counts


def _require_room(home: Path, old: int) -> None:
    data = home / "data"
    if _kept(home, old).exists():
        raise EmbeddedPostgresError(f"{_kept(home, old)} is of an earlier upgrade; move it away.")
    needed = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    free = shutil.disk_usage(data).free
    if free < needed:
        raise EmbeddedPostgresError(
            f"{data} has {needed >> 20} MiB, and as much must be free beside it; {free >> 20} MiB are."
        )


def _require_unused(home: Path) -> None:
    """No process works with the database. None can begin to: its version is not theirs."""
    with (home / "use.lock").open("ab") as use:
        try:
            fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EmbeddedPostgresError("The server runs; stop it first.") from None
