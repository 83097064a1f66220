"""Upgrade the embedded database by dump and load, verify row counts, and keep the old data.

The old data is unchanged. An interrupted upgrade starts again, or finishes if only its last step is
missing.
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

from operations.postgres.server import (
    SUPERUSER,
    UPGRADE_DIRECTORY,
    EmbeddedPostgres,
    EmbeddedPostgresError,
    bundled_programs,
    data_version,
    find_programs,
    program_version,
    require_readable,
    url,
)

COMPLETE_MARKER = "complete"
"""File in ``next`` that marks a complete copy of the old database."""

TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND n.nspname NOT LIKE 'pg\\_%' ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class UpgradeResult:
    """Versions and number of rows; ``rows`` is None if an earlier run copied them."""

    old: int
    new: int
    rows: int | None
    old_data: Path


def upgrade(home: Path, *, programs: Path | None = None) -> UpgradeResult | None:
    """Upgrade the database; return None if it is up to date.

    Raises ``EmbeddedPostgresError``; the old database is unchanged then.
    """
    data, new = home / "data", program_version(bundled_programs())
    if not data.exists():
        return (
            _install_new_data(home, new, None)
            if (home / UPGRADE_DIRECTORY / COMPLETE_MARKER).exists()
            else None
        )
    require_readable(home)
    old = data_version(data)
    if old == new:
        return None
    _require_space(home, old)
    _require_unused(home)
    try:
        rows = _copy_database(home, programs or find_programs(old))
    except psycopg.Error as error:
        raise EmbeddedPostgresError(f"Nothing was changed: {error}") from error
    (home / UPGRADE_DIRECTORY / COMPLETE_MARKER).write_text(str(old))
    data.rename(_old_data_path(home, old))
    return _install_new_data(home, new, rows)


def _install_new_data(home: Path, new: int, rows: int | None) -> UpgradeResult:
    """Move the new data to the place of the old data."""
    old = int((home / UPGRADE_DIRECTORY / COMPLETE_MARKER).read_text())
    (home / UPGRADE_DIRECTORY / "data").rename(home / "data")
    shutil.rmtree(home / UPGRADE_DIRECTORY)
    return UpgradeResult(old, new, rows, _old_data_path(home, old))


def _old_data_path(home: Path, old: int) -> Path:
    return home / f"data.{old}"


def _copy_database(home: Path, programs: Path) -> int:
    """Copy the old database into a new one under ``next``, and return the number of rows."""
    shutil.rmtree(home / UPGRADE_DIRECTORY, ignore_errors=True)
    old, new = EmbeddedPostgres(home, programs=programs), EmbeddedPostgres(home / UPGRADE_DIRECTORY)
    with _running(old), _running(new):
        source, target = (url(server.home, role=SUPERUSER) for server in (old, new))
        _dump_and_load(source, target)
        old_counts, new_counts = _count_rows(source), _count_rows(target)
    if old_counts != new_counts:
        raise EmbeddedPostgresError(
            "The copy does not have all rows of the original; nothing was changed."
        )
    return sum(old_counts.values())


@contextlib.contextmanager
def _running(server: EmbeddedPostgres) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop()


def _dump_and_load(source: str, target: str) -> None:
    """Pipe pg_dump into psql, in one transaction, then run ANALYZE."""
    programs = bundled_programs()
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
    with subprocess.Popen(dump, stdout=subprocess.PIPE, env=environment) as dump_process:
        load_result = subprocess.run(
            load, stdin=dump_process.stdout, stdout=subprocess.DEVNULL, env=environment, check=False
        )
        if load_result.returncode != 0:
            dump_process.kill()
    if dump_process.returncode or load_result.returncode:
        raise EmbeddedPostgresError("Copying the database failed; nothing was changed.")


def _count_rows(server: str) -> dict[str, int]:
    with psycopg.connect(server) as connection:
        counts = {}
        for schema, table in connection.execute(TABLES).fetchall():
            name = sql.Identifier(schema, table)
            query = sql.SQL("SELECT count(*) FROM {}").format(name)
            [counts[f"{schema}.{table}"]] = connection.execute(query).fetchone() or [0]
    return counts


def _require_space(home: Path, old: int) -> None:
    data = home / "data"
    if _old_data_path(home, old).exists():
        raise EmbeddedPostgresError(
            f"{_old_data_path(home, old)} exists from an earlier upgrade. Move or delete it."
        )
    needed = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    free = shutil.disk_usage(data).free
    if free < needed:
        raise EmbeddedPostgresError(
            f"The upgrade needs {needed >> 20} MiB of free disk space; {free >> 20} MiB are free."
        )


def _require_unused(home: Path) -> None:
    """Raise if a process uses the database; no new one can start, as its version differs."""
    with (home / "use.lock").open("ab") as use:
        try:
            fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EmbeddedPostgresError("The server is running; stop it first.") from None
