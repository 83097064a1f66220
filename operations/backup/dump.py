"""Write a consistent snapshot of all tables to an encrypted file while the server runs."""

import os
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from django.conf import settings

from evidence.access.crypto import keys_for
from evidence.models.accounts import OWNER_ID
from evidence.storing.table_copy import Table, backup_tables, dump_rows, server_version, snapshot
from operations.backup.archive import EncryptedWriter, FrameKind, FrameWriter, Secret
from operations.backup.errors import BackupExistsError
from operations.backup.sample_answers import ledger_heads, sample_answers

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


def back_up(
    path: Path,
    secret: Secret,
    *,
    migrations: Migrations,
    with_keys: bool,
    now: datetime,
    on_table: ReportTable = lambda name, rows: None,
) -> BackupSummary:
    """Write a new backup file, which appears only when it is complete.

    Call it outside of any transaction. Raises BackupExistsError, OSError and DatabaseError.
    """
    if path.exists():
        raise BackupExistsError(str(path))
    with _new_file(path) as file, snapshot():
        writer = FrameWriter(EncryptedWriter(file, secret))
        tables = backup_tables()
        manifest = _manifest(tables, migrations, with_keys=with_keys, now=now)
        writer.write_json(FrameKind.MANIFEST, manifest)
        counts = {table.name: _write_table(writer, table, on_table) for table in tables}
        answers, heads = sample_answers(OWNER_ID), ledger_heads(OWNER_ID)
        closing = {"counts": counts, "answers": answers, "ledger_heads": heads}
        writer.write_json(FrameKind.CLOSING, closing)
        writer.close()
        return BackupSummary(counts, file.tell(), len(answers), len(heads))


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


def _write_table(writer: FrameWriter, table: Table, on_table: ReportTable) -> int:
    writer.write_json(FrameKind.TABLE, {"name": table.name})
    total = 0
    for rows, count in dump_rows(table):
        writer.write(FrameKind.ROWS, rows)
        total += count
    writer.write_json(FrameKind.TABLE_ENDS, {"rows": total})
    on_table(table.name, total)
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
