"""Making a backup: all tables as of one moment, into one sealed file, while the server goes on."""

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
from evidence.storing.table_copy import Table, kept_tables, one_moment, rows_of, server_version
from operations.backup.archive import FrameWriter, Kind, Sealer, Secret
from operations.backup.errors import FileExists
from operations.backup.sample_answers import answers, ledger_heads

Migrations = Collection[tuple[str, str]]
OnTable = Callable[[str, int], object]


@dataclass(frozen=True, slots=True)
class Made:
    """What is in a new backup: rows by table."""

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
    on_table: OnTable = lambda name, rows: None,
) -> Made:
    """Writes a new file, which is there only once it is whole. Outside of any transaction. Raises
    ``FileExists``, ``OSError`` and ``DatabaseError``."""
    if path.exists():
        raise FileExists(str(path))
    with _appearing(path) as file, one_moment():
        writer = FrameWriter(Sealer(file, secret))
        tables = kept_tables()
        writer.tell(Kind.MANIFEST, _manifest(tables, migrations, with_keys=with_keys, now=now))
        counts = {table.name: _copied(writer, table, on_table) for table in tables}
        asked, heads = answers(OWNER_ID), ledger_heads(OWNER_ID)
        writer.tell(Kind.CLOSING, {"counts": counts, "answers": asked, "ledger_heads": heads})
        writer.close()
        return Made(counts, file.tell(), len(asked), len(heads))


def fingerprints() -> list[str]:
    """By them a restore knows whether a secret of the server's, today's first, is the one that a
    backup was made under."""
    return [key.hex()[:32] for key in keys_for("backups")]


def _manifest(
    tables: list[Table], migrations: Migrations, *, with_keys: bool, now: datetime
) -> dict[str, object]:
    return {
        "made_at": now.isoformat(),
        "server_version": server_version(),
        "migrations": sorted(list(each) for each in migrations),
        "tables": {table.name: list(table.columns) for table in tables},
        "fingerprint": fingerprints()[0],
        "keys": _keys() if with_keys else None,
    }


def _keys() -> dict[str, object]:
    """As they stand in ``keys.json``, where there is no environment beside it."""
    earlier = {"secret": settings.SECRET_KEY_FALLBACKS} if settings.SECRET_KEY_FALLBACKS else {}
    rotated = settings.PDPP_ROTATED_KEYS | earlier
    return {"secret_key": settings.SECRET_KEY, "rotated": rotated}


def _copied(writer: FrameWriter, table: Table, on_table: OnTable) -> int:
    writer.tell(Kind.TABLE, {"name": table.name})
    total = 0
    for piece, count in rows_of(table):
        writer.write(Kind.ROWS, piece)
        total += count
    writer.tell(Kind.TABLE_ENDS, {"rows": total})
    on_table(table.name, total)
    return total


def _named(draft: Path, path: Path) -> None:
    """Raises ``FileExistsError``. Where a disk has no second names for a file, as sticks have not,
    the name is taken first."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        draft.replace(path)


@contextmanager
def _appearing(path: Path) -> Iterator[IO[bytes]]:
    """A file of mode 0600 that gets its name once it is whole and on the disk; else there is none."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        try:
            _named(draft, path)
        except FileExistsError:
            raise FileExists(str(path)) from None
    finally:
        draft.unlink(missing_ok=True)
