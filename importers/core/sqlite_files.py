"""Read SQLite databases of an export, from a private copy that includes the write-ahead log."""

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from importers.core.export_files import ExportFile
from importers.core.results import ReceiptCode, UnreadableError

MAGIC = b"SQLite format 3\0"
DATABASE_MAX_BYTES = 2 * 1000 * 1000 * 1000
_SCHEMA_BYTES = 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_LOGS = ("-wal", "-shm", "-journal")
_VALUE_MAX_BYTES = 16 * 1024 * 1024


def claim_databases(
    files: Sequence[ExportFile], *, names: Sequence[str], tables: Sequence[str]
) -> list[ExportFile]:
    """Return the databases with these names or tables, and their logs."""
    wanted = [table.encode() for table in tables]
    found = [
        file
        for file in files
        if file.head.startswith(MAGIC) and (file.path.name in names or _has_all(file, wanted))
    ]
    bases = {file.name for file in found}
    logs = (file for file in files for log in _LOGS if file.name.removesuffix(log) in bases)
    return [*found, *(log for log in logs if log not in found)]


def _has_all(file: ExportFile, tables: Sequence[bytes]) -> bool:
    if all(table in file.head for table in tables):
        return True
    try:
        with file.open() as stream:
            start = stream.read(_SCHEMA_BYTES)
    except UnreadableError:
        return False
    return all(table in start for table in tables)


def databases(files: Sequence[ExportFile]) -> list[ExportFile]:
    """Return the claimed files that are no logs."""
    return [file for file in files if not file.name.endswith(_LOGS)]


@contextmanager
def open_database(file: ExportFile, files: Sequence[ExportFile]) -> Iterator["Database"]:
    """Open a copy of a database. Raises ``UnreadableError``, also while its rows are read."""
    with tempfile.TemporaryDirectory() as folder:
        path, size = Path(folder, "copy.db"), _copy(file, Path(folder, "copy.db"))
        logs = [each for each in files if each.name == f"{file.name}-wal" and each.size]
        for log in logs:
            size += _copy(log, Path(folder, "copy.db-wal"))
        mode = "" if logs else "?mode=ro&immutable=1"
        try:
            with closing(sqlite3.connect(f"file:{path}{mode}", uri=True)) as connection:
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_MAX_BYTES)
                connection.text_factory = lambda content: content.decode("utf-8", "replace")
                connection.row_factory = sqlite3.Row
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA query_only = ON")
                yield Database(connection, size)
        except sqlite3.Error as error:
            raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error


def _copy(file: ExportFile, path: Path) -> int:
    size = 0
    with file.open() as source, path.open("wb") as target:
        while block := source.read(_BLOCK_BYTES):
            size += len(block)
            if size > DATABASE_MAX_BYTES:
                raise UnreadableError(ReceiptCode.TOO_LARGE)
            target.write(block)
    return size


class Database:
    """An open database; ``size`` is in bytes."""

    def __init__(self, connection: sqlite3.Connection, size: int) -> None:
        self._connection = connection
        self.size = size

    def columns(self, table: str) -> set[str]:
        rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", [table])
        return {row["name"] for row in rows}

    def select(self, sql: str) -> Iterator[sqlite3.Row]:
        # "yield from" would close the cursor, which fails if the database is closed before it.
        for row in self._connection.execute(sql):  # noqa: UP028
            yield row

    def select_known(self, table: str, names: Sequence[str], rest: str) -> Iterator[sqlite3.Row]:
        """Select columns of a table, which is called t in ``rest``; unknown ones are null."""
        known = self.columns(table)
        columns = ", ".join(f"t.{name}" if name in known else f"NULL AS {name}" for name in names)
        yield from self.select(f"SELECT {columns} {rest}")
