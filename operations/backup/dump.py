"""Write a consistent snapshot of all tables to an encrypted file while the server runs."""

import contextlib
import os
import secrets
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TypeVar

from django.conf import settings

from evidence.access.crypto import keys_for
from evidence.models.accounts import OWNER_ID
from evidence.storing.table_copy import Table, backup_tables, dump_rows, server_version, snapshot
from operations.backup.archive import EncryptedWriter, FrameKind, FrameWriter
from operations.backup.errors import BackupExistsError
from operations.backup.file_key import FileHeader, Recipient, Secret
from operations.backup.sample_answers import ledger_heads, sample_answers

Result = TypeVar("Result")
Migrations = Collection[tuple[str, str]]
ReportTable = Callable[[str, int], object]
"""Takes the name of a table and its number of rows after the table is done."""


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """What a new backup contains. `counts` are rows by table."""

    counts: dict[str, int]
    size_bytes: int
    answers: int
    chains: int
    header: FileHeader

    @property
    def rows(self) -> int:
        return sum(self.counts.values())


def back_up(
    path: Path,
    secret: Secret | Recipient,
    *,
    migrations: Migrations,
    with_keys: bool,
    now: datetime,
    on_table: ReportTable = lambda name, rows: None,
) -> Generator[None, None, BackupSummary]:
    """Write a new backup file in steps. It appears only when it is complete.

    Run it outside of any transaction, and end it by closing the generator. Raises BackupExistsError,
    OSError and DatabaseError.
    """
    if path.exists():
        raise BackupExistsError(str(path))
    with _new_file(path) as file, snapshot():
        encrypted = EncryptedWriter(file, secret)
        writer = FrameWriter(encrypted)
        tables = backup_tables()
        manifest = _manifest(tables, migrations, with_keys=with_keys, now=now)
        writer.write_json(FrameKind.MANIFEST, manifest)
        counts = {}
        for table in tables:
            counts[table.name] = yield from _write_table(writer, table)
            on_table(table.name, counts[table.name])
        answers, heads = sample_answers(OWNER_ID), ledger_heads(OWNER_ID)
        closing = {"counts": counts, "answers": answers, "ledger_heads": heads}
        writer.write_json(FrameKind.CLOSING, closing)
        writer.close()
        return BackupSummary(counts, file.tell(), len(answers), len(heads), encrypted.header)


def run_to_end(steps: Generator[object, None, Result]) -> Result:
    """Take all steps at once and return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def key_fingerprints() -> list[str]:
    """Return fingerprints of the server's secret keys, the current one first.

    A restore compares them with the fingerprint in the backup.
    """
    return [key.hex()[:32] for key in keys_for("backups")]


def _manifest(
    tables: list[Table], migrations: Migrations, *, with_keys: bool, now: datetime
) -> dict[str, object]:
    return {
        "made_at": now.isoformat(),
        "server_version": server_version(),
        "migrations": sorted(list(migration) for migration in migrations),
        "tables": {table.name: list(table.columns) for table in tables},
        "fingerprint": key_fingerprints()[0],
        "keys": _keys() if with_keys else None,
    }


def _keys() -> dict[str, object]:
    """Return the keys in the format of `keys.json`, including fallbacks from the environment."""
    fallbacks = {"secret": settings.SECRET_KEY_FALLBACKS} if settings.SECRET_KEY_FALLBACKS else {}
    rotated = settings.PDPP_ROTATED_KEYS | fallbacks
    return {"secret_key": settings.SECRET_KEY, "rotated": rotated}


def _write_table(writer: FrameWriter, table: Table) -> Generator[None, None, int]:
    writer.write_json(FrameKind.TABLE, {"name": table.name})
    total = 0
    with contextlib.closing(dump_rows(table)) as batches:
        for rows, count in batches:
            writer.write(FrameKind.ROWS, rows)
            total += count
            yield
    writer.write_json(FrameKind.TABLE_ENDS, {"rows": total})
    return total


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file with mode 0600 that gets its name after it is complete and synced to disk."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        try:
            _publish(draft, path)
        except FileExistsError:
            raise BackupExistsError(str(path)) from None
    finally:
        draft.unlink(missing_ok=True)


def _publish(draft: Path, path: Path) -> None:
    """Give the draft its name. Raises FileExistsError."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:
        # File systems such as FAT have no hard links, so reserve the name first.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        draft.replace(path)
