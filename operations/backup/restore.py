"""Restore a backup in one transaction, with all grants paused, or try that in a scratch database.

A backup of everything needs an empty database. One of an owner's rows is restored beside other owners,
whose rows it neither reads nor changes. A drill restores into a database of its own, in another
process, verifies it, and drops it.
"""

import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from django.db import DatabaseError, ProgrammingError, connection
from django.utils import timezone
from psycopg import sql

from evidence.access.grant_lifecycle import suspend_all
from evidence.ledger.checkpoints import sign_entries
from evidence.ledger.verification import VerificationReport, verify
from evidence.models.owners import across_owners, acting_for
from operations import key_file
from operations.backup import table_copy
from operations.backup.archive import (
    BackupReader,
    DamagedError,
    Manifest,
    Migration,
    NewerFormatError,
    ReportTable,
    key_fingerprints,
    ledger_heads,
    open_backup,
    owners_in,
    sample_answers,
)
from operations.backup.keys import BackupError, parse_identity
from operations.backup.models import BackupCopy, BackupPlan
from operations.postgres import server as embedded_postgres

DRILL_PREFIX = "pdpp_drill_"
MAX_AGE = timedelta(days=1)
"""Older databases were left behind by a killed process."""
POLL_SECONDS = 0.2


class NotEmptyError(BackupError):
    """The database is not empty: it has rows in {}. Create a new database, or set PDPP_VAR to a new
    folder, and restore there."""


class OwnerExistsError(BackupError):
    """The owner {} has records or settings here already. Use --replace to delete them, and restore
    those of the backup instead."""


class MigrationsDifferError(BackupError):
    """The tables of this database have another version than those of the backup. Restore into a
    database that was never migrated: restore migrates it."""


class SecretKeyDiffersError(BackupError):
    """The rows were backed up under another PDPP_SECRET_KEY than that of this installation. Set that
    one, or restore with --without-the-key, which revokes all tokens and removes the ledger's seals."""


class RestoreRunningError(BackupError):
    """Another restore into this database is running."""


class DrillFailedError(BackupError):
    """{}"""


@dataclass(frozen=True, slots=True)
class RestoreSummary:
    """What a restore did: rows by table, paused grants, revoked owner tokens.

    `closing` holds the counts, answers and ledger heads at the time of the backup.
    """

    owner_ids: list[str]
    counts: dict[str, int]
    paused: int
    ended: int
    closing: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of a restored database with its backup. `differing` names sample answers."""

    rows: int
    answers: int
    differing: list[str]
    heads: int
    heads_equal: bool
    ledger_rows: int
    ledger_faults: int

    @property
    def holds(self) -> bool:
        return self.heads_equal and not self.differing and not self.ledger_faults


def require_restorable(
    manifest: Manifest, *, known: Collection[Migration], applied: Collection[Migration]
) -> None:
    """Raise BackupError if this program or the tables of this database are of another version."""
    if manifest.migrations - set(known):
        raise NewerFormatError
    if set(applied) - manifest.migrations:
        raise MigrationsDifferError


def require_key(manifest: Manifest) -> None:
    """Raise SecretKeyDiffersError if a backup needs a key that is neither in it nor here."""
    if manifest.keys is None and manifest.fingerprint not in key_fingerprints():
        raise SecretKeyDiffersError


def restore(
    backup: BackupReader,
    *,
    now: datetime,
    replace: bool = False,
    on_table: ReportTable = lambda name, rows: None,
) -> RestoreSummary:
    """Load all tables in one transaction, which restores nothing if it fails.

    With ``replace``, the rows that the backup's owner has are deleted first. Raises BackupError
    for an invalid file, a database in use or an owner who has rows, and DatabaseError.
    """
    owner_id = backup.manifest.owner_id
    with table_copy.restore_transaction() as is_locked:
        if not is_locked:
            raise RestoreRunningError
        if owner_id is None:
            require_empty()
            table_copy.truncate_tables()
        else:
            _require_free(owner_id, replace=replace)
        table_copy.defer_constraints()
        counts = _load_tables(backup, on_table)
        if counts != backup.closing["counts"]:
            raise DamagedError
        table_copy.reset_sequences()
        with across_owners() if owner_id is None else acting_for(owner_id):
            paused, ended = suspend_all(now=now)
            # Rotation would delete backups of the other server.
            BackupPlan.unscoped.update(due_at=None, is_paused=True)
            BackupCopy.unscoped.update(drill_key=None)
        owner_ids = owners_in(owner_id)
    return RestoreSummary(owner_ids, counts, paused, ended, backup.closing)


def _load_tables(backup: BackupReader, on_table: ReportTable) -> dict[str, int]:
    """Return the number of loaded rows by table."""
    owner_id = backup.manifest.owner_id
    allowed = {table.name for table in table_copy.backup_tables(owner_id)}
    for table in backup.manifest.tables.values():
        if not table_copy.has_table(table):
            raise MigrationsDifferError
        if owner_id is not None and table.name not in allowed:
            raise DamagedError
    counts = dict.fromkeys(backup.manifest.tables, 0)
    for table, rows in backup.tables():
        if owner_id is None:
            counts[table.name] = table_copy.load_rows(table, rows)
        else:
            counts[table.name] = table_copy.load_own_rows(table, rows, owner_id)
        on_table(table.name, counts[table.name])
    return counts


def require_empty() -> None:
    """Raise NotEmptyError if the database holds data."""
    if tables := table_copy.non_empty_tables():
        raise NotEmptyError(tables[0])


def _require_free(owner_id: str, *, replace: bool) -> None:
    """Make room for the rows of an owner. Raises OwnerExistsError if there are some already."""
    if replace:
        table_copy.delete_rows_of(owner_id)
    elif table_copy.has_rows_of(owner_id):
        raise OwnerExistsError(owner_id)


def verify_restore(restored: RestoreSummary) -> Verification:
    """Compare sample answers and ledger heads with the backup. Reads the complete ledger."""
    expected = restored.closing["answers"]
    actual = sample_answers(restored.owner_ids)
    heads = ledger_heads(restored.owner_ids)
    verdicts = [_verify_ledger(owner_id) for owner_id in restored.owner_ids]
    return Verification(
        rows=sum(restored.counts.values()),
        answers=len(expected),
        differing=sorted(
            name for name in {*expected, *actual} if expected.get(name) != actual.get(name)
        ),
        heads=len(heads),
        heads_equal=heads == restored.closing["ledger_heads"],
        ledger_rows=sum(verdict.rows for verdict in verdicts),
        ledger_faults=sum(len(verdict.problems) for verdict in verdicts),
    )


def _verify_ledger(owner_id: str) -> VerificationReport:
    with acting_for(owner_id):
        sign_entries(owner_id, now=timezone.now())  # those of the last seconds before the backup
        return verify(owner_id)


def describe_database_error(error: DatabaseError) -> str:
    """Return the SQLSTATE of an error, or its class, because its text may quote a record."""
    code = getattr(error.__cause__, "sqlstate", None) or type(error).__name__
    return f"an error of the database ({code})"


@contextmanager
def scratch_database(*, now: datetime) -> Iterator[str]:
    """Yield the name of a new database and drop it afterwards.

    Raises DatabaseError if this account cannot create databases.
    """
    for name in _abandoned_databases(now):
        _drop(name)
    name = f"{scratch_prefix()}{int(now.timestamp())}_{secrets.token_hex(4)}"
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield name
    finally:
        _drop(name)


def scratch_prefix() -> str:
    """Return how the names of this installation's scratch databases begin.

    Installations that share a PostgreSQL server do not drop each other's.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT oid FROM pg_database WHERE datname = current_database()")
        return f"{DRILL_PREFIX}{cursor.fetchone()[0]}_"


def _abandoned_databases(now: datetime) -> list[str]:
    pattern = re.compile(rf"{scratch_prefix()}(\d+)_[0-9a-f]{{8}}")
    with connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database")
        matches = [pattern.fullmatch(name) for (name,) in cursor]
    oldest = (now - MAX_AGE).timestamp()
    return [match[0] for match in matches if match is not None and int(match[1]) < oldest]


def _drop(name: str) -> None:
    statement = sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name))
    with connection.cursor() as cursor:
        try:
            cursor.execute(statement + sql.SQL(" WITH (FORCE)"))
        except ProgrammingError:
            # FORCE may not end the autovacuum worker of a superuser; without it, PostgreSQL does.
            cursor.execute(statement)


def drill(path: Path, secret_line: str, *, now: datetime) -> Generator[None, None, Verification]:
    """Restore a backup in steps, as after a loss; this installation is unchanged.

    One of everything must bring the installation's key along. Closing the generator ends the process and
    drops the database. Raises DrillFailedError with the message of the other process, and DatabaseError
    if this account cannot create databases.
    """
    with open_backup(path, parse_identity(secret_line)) as backup:
        brings_key = backup.manifest.keys is not None
    with (
        scratch_database(now=now) as name,
        tempfile.TemporaryDirectory(prefix="pdpp-drill-") as var,
    ):
        environment = os.environ | {"DATABASE_URL": _url(name), "PDPP_VAR": var}
        environment["PDPP_SECRET_KEY"] = secrets.token_urlsafe(50)
        if not brings_key:
            environment["PDPP_SECRET_KEY"] = settings.SECRET_KEY
            key_file.write_keys(Path(var), {"rotated": settings.PDPP_ROTATED_KEYS})
        arguments = ["restore", str(path.resolve()), "--json"]
        output = yield from _run(arguments, environment, secret_line.encode())
    content = json.loads(output)
    content.pop("holds")
    return Verification(**content)


def _run(
    arguments: list[str], environment: dict[str, str], line: bytes
) -> Generator[None, None, str]:
    """Run a command and return what it printed. Raises DrillFailedError with its message."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "pdpp_site", *arguments],
            cwd=settings.BASE_DIR,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=errors,
        )
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(line + b"\n")
            while process.poll() is None:
                yield
                time.sleep(POLL_SECONDS)
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        if (output := out.read().decode().strip()).startswith("{"):
            return output
        errors.seek(0)
        message = errors.read().decode().strip().rpartition("\n")[2]
        raise DrillFailedError(message.removeprefix("CommandError: "))


def _url(database: str) -> str:
    server = settings.DATABASE_URL or embedded_postgres.url(settings.PDPP_VAR / "postgres")
    return urlunsplit(urlsplit(server)._replace(path=f"/{database}"))
