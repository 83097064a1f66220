"""Write a consistent snapshot of all tables, or of one owner's rows, to an encrypted file.

The server can keep running.

Hashes of sample answers go along, to compare after a restore. The answers are what the owner reads of
each stream through the gate. The backup contains only their hashes, so this discloses no records.
"""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TypeVar

import orjson
from django.conf import settings

from evidence.access.crypto import keys_for
from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.errors import ApiException
from evidence.ledger.checkpoints import chain_heads
from evidence.models.owners import Owner, acting_for
from evidence.read import records as reading
from evidence.read.search import search
from evidence.search.results import SearchRequest
from operations.backup.archive import EncryptedWriter, FrameKind, FrameWriter
from operations.backup.errors import BackupExistsError
from operations.backup.keys import FileHeader, Recipient, Secret
from operations.backup.table_copy import Table, backup_tables, dump_rows, server_version, snapshot

MAX_STREAMS = 40
MAX_RECORDS = 10
MAX_ANSWERS = 1_000
"""With so many answers, those of further owners are not sampled."""
QUERY_MIN_CHARS = 4
"""Shorter words match too many records."""

Answers = dict[str, str]


def sample_answers(owner_ids: Collection[str]) -> Answers:
    """Return the hash of each sample answer, by a name such as `list connection_id/stream`.

    Where there are several owners, the name begins with the owner's id.
    """
    answers: Answers = {}
    for owner_id in owner_ids:
        prefix = f"{owner_id}: " if len(owner_ids) > 1 else ""
        if len(answers) < MAX_ANSWERS:
            with acting_for(owner_id):
                answers |= {f"{prefix}{name}": each for name, each in _owner_answers(owner_id)}
    return answers


def _owner_answers(owner_id: str) -> Iterator[tuple[str, str]]:
    gate = Gate(owner_scope(owner_id))
    for visible in gate.streams()[:MAX_STREAMS]:
        for connection in visible.connections:
            yield from _stream_answers(gate, visible.for_connection(connection.connection_id))


def ledger_heads(owner_ids: Collection[str]) -> list[list[str | int]]:
    """Return the heads of all ledger chains as JSON values."""
    heads: list[list[str | int]] = []
    for owner_id in owner_ids:
        with acting_for(owner_id):
            found = chain_heads(owner_id)
        heads += [[head.chain, head.seq, head.digest.hex()] for head in found]
    return heads


def owners_in(owner_id: str | None) -> list[str]:
    """Return the owners of a backup: one, or everybody."""
    everybody = Owner.unscoped.order_by("owner_id").values_list("owner_id", flat=True)
    return list(everybody) if owner_id is None else [owner_id]


def _stream_answers(gate: Gate, visible: VisibleRecords) -> Iterator[tuple[str, str]]:
    [connection] = visible.connections
    name = f"{connection.connection_id}/{visible.stream.name}"
    records = reading.page(
        visible, limit=MAX_RECORDS, descending=True, after=None, where=()
    ).records
    yield f"list {name}", _hash([_content(record) for record in records])
    for record in records[:1]:
        yield f"get {name}", _hash(_content(reading.get(visible, record.record_key)))
    title = visible.stream.title_field
    titles = [str(record.data.get(title, "")) for record in records if title is not None]
    words = (word for text in titles for word in text.split())
    word = next((word for word in words if word.isalpha() and len(word) >= QUERY_MIN_CHARS), None)
    if word is not None:
        yield f"search {name}", _hash(_search_keys(gate, visible, word))


def _search_keys(gate: Gate, visible: VisibleRecords, word: str) -> list[str]:
    request = SearchRequest(
        q=word,
        mode="lexical",
        streams=[visible.stream.name],
        connection_id=visible.connections[0].connection_id,
        filters=(),
        limit=MAX_RECORDS,
        newest_first=False,
        after=None,
    )
    try:
        return [hit.record.record_key for hit in search(gate, request).hits]
    except ApiException as refusal:
        return [refusal.code]


def _content(record: VisibleRecord) -> list[object]:
    return [record.record_key, record.version, record.emitted_at.isoformat(), record.data]


def _hash(answer: object) -> str:
    return hashlib.sha256(orjson.dumps(answer, option=orjson.OPT_SORT_KEYS)).hexdigest()


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
    owner_id: str | None = None,
    migrations: Migrations,
    with_keys: bool,
    now: datetime,
    on_table: ReportTable = lambda name, rows: None,
) -> Generator[None, None, BackupSummary]:
    """Write a new backup file in steps. It appears only when it is complete.

    With an owner, it contains the rows of that owner alone, and not their account.
    Run it outside of any transaction, and end it by closing the generator. Raises BackupExistsError,
    OSError and DatabaseError.
    """
    if path.exists():
        raise BackupExistsError(str(path))
    with _new_file(path) as file, snapshot():
        encrypted = EncryptedWriter(file, secret)
        writer = FrameWriter(encrypted)
        tables = backup_tables(owner_id)
        manifest = _manifest(tables, migrations, with_keys=with_keys, now=now)
        manifest["owner"] = owner_id
        writer.write_json(FrameKind.MANIFEST, manifest)
        counts = {}
        for table in tables:
            counts[table.name] = yield from _write_table(writer, table, owner_id)
            on_table(table.name, counts[table.name])
        owner_ids = owners_in(owner_id)
        answers, heads = sample_answers(owner_ids), ledger_heads(owner_ids)
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


def _write_table(
    writer: FrameWriter, table: Table, owner_id: str | None
) -> Generator[None, None, int]:
    writer.write_json(FrameKind.TABLE, {"name": table.name})
    total = 0
    with contextlib.closing(dump_rows(table, owner_id)) as batches:
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
