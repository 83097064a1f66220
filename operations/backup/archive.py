"""Write and read backup files: a compressed tar archive, encrypted with age.

The archive has `manifest.json`, the rows of each table as parts in COPY format, as
`tables/TABLE/000001.copy`, and `closing.json`. `age -d -i KEY FILE | tar xz` unpacks it
without this program. age encrypts and authenticates in a thread at the other end of a pipe, so that
neither a backup nor a restore holds more than a part in memory.

The rows are one snapshot of the database, while the server runs. Hashes of sample answers go along, to
compare after a restore. The answers are what the owner reads of each stream through the gate. The
backup contains only their hashes, so this discloses no records.
"""

import contextlib
import gzip
import hashlib
import io
import os
import secrets
import tarfile
import zlib
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar

import orjson
import pyrage
from django.conf import settings
from pyrage.x25519 import Identity, Recipient
from typing_extensions import override

from evidence.access.crypto import keys_for
from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.access.records import VisibleRecord, VisibleRecords, get_record, read_page
from evidence.errors import ApiException
from evidence.ledger.checkpoints import chain_heads
from evidence.models.owners import Owner, acting_for
from evidence.read.search import search
from evidence.search.results import SearchRequest
from operations.backup.keys import BackupError, WrongKeyError
from operations.backup.table_copy import Table, backup_tables, dump_rows, server_version, snapshot

FORMAT_VERSION = 2
AGE = b"age-encryption.org/v1\n"
FIRST_FORMAT = b"pdpp backup "
HEADER_MAX_BYTES = 4_096
WRONG_KEY = "No matching keys found"
"""What age says if it cannot decrypt the header."""
COMPRESSION_LEVEL = 1
CHUNK_BYTES = 64 * 1024
MANIFEST, CLOSING = "manifest.json", "closing.json"
JSON_MAX_BYTES = 64 * 1024 * 1024

MAX_STREAMS = 40
MAX_RECORDS = 10
MAX_ANSWERS = 1_000
"""With so many answers, those of further owners are not sampled."""
QUERY_MIN_CHARS = 4
"""Shorter words match too many records."""

Answers = dict[str, str]
Migration = tuple[str, str]
Result = TypeVar("Result")
ReportTable = Callable[[str, int], object]
"""Takes the name of a table and its number of rows after the table is done."""


class NotABackupError(BackupError):
    """The file is not a PDPP backup."""


class OlderFormatError(BackupError):
    """The backup was made before version 0.1.0, in another format. Make a new backup with this version."""


class NewerFormatError(BackupError):
    """A newer version of this program made the backup. Update this program, then restore."""


class DamagedError(BackupError):
    """The backup was changed, damaged or cut short after it was made. Nothing was restored. Use
    another copy."""


class BackupExistsError(BackupError):
    """The file exists, and a backup never replaces one: {}"""


class _Target(io.BufferedIOBase):
    """A file for age, which loses the number of an error."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.error: OSError | None = None

    @override
    def write(self, content: Any) -> int:
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = error
            raise

    @override
    def flush(self) -> None:
        self._file.flush()


@contextmanager
def encrypted(file: IO[bytes], recipients: Sequence[Recipient]) -> Iterator[IO[bytes]]:
    """Yield a file whose content is encrypted to `file`. Raises the OSError of `file`."""
    target = _Target(file)
    source, pipe = _open_pipe()

    def encrypt() -> None:
        with source:
            pyrage.encrypt_io(source, target, recipients)

    with ThreadPoolExecutor(1, "age") as executor:
        done = executor.submit(encrypt)
        try:
            with pipe:
                yield pipe
            done.result()
        except (BrokenPipeError, pyrage.EncryptError):
            if target.error is not None:
                raise target.error from None
            raise


def _open_pipe() -> tuple[io.BufferedReader, io.BufferedWriter]:
    """Return the ends of a pipe to read and to write."""
    source, target = os.pipe()
    return os.fdopen(source, "rb"), os.fdopen(target, "wb")


def require_age_file(path: Path) -> None:
    """Raise NotABackupError or OlderFormatError for a file that is not encrypted with age."""
    with path.open("rb") as file:
        start = file.read(len(AGE))
    if start.startswith(FIRST_FORMAT):
        raise OlderFormatError
    if start != AGE:
        raise NotABackupError


def opens(path: Path, identity: Identity) -> bool:
    """Return whether a key opens the header of a backup. Reads nothing else."""
    with path.open("rb") as file:
        header = file.read(HEADER_MAX_BYTES)
    try:
        pyrage.decrypt(header, [identity])
    except pyrage.DecryptError as error:
        return str(error) != WRONG_KEY
    except OSError:  # the end is missing, of course
        return True
    return True


class ArchiveWriter:
    """Writes the parts of a compressed archive."""

    def __init__(self, file: IO[bytes]) -> None:
        self._gzip = gzip.GzipFile(
            fileobj=file, mode="wb", compresslevel=COMPRESSION_LEVEL, mtime=0
        )
        self._tar = tarfile.open(fileobj=self._gzip, mode="w")  # noqa: SIM115 - see close

    def add(self, name: str, content: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(content), 0o600
        self._tar.addfile(member, io.BytesIO(content))
        self._tar.members.clear()  # type: ignore[attr-defined] # grows with every part

    def add_json(self, name: str, content: object) -> None:
        self.add(name, orjson.dumps(content))

    def close(self) -> None:
        self._tar.close()
        self._gzip.close()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a backup, which precedes its rows."""

    made_at: str
    migrations: frozenset[Migration]
    owner_id: str | None
    """Whose rows the backup contains alone, or None if it contains everything."""
    tables: dict[str, Table]
    fingerprint: str
    keys: dict[str, Any] | None
    """The installation's keys, which a backup of everything contains."""

    @classmethod
    def parse(cls, content: dict[str, Any]) -> "Manifest":
        """Raises NewerFormatError."""
        if content["format"] > FORMAT_VERSION:
            raise NewerFormatError
        return cls(
            made_at=content["made_at"],
            owner_id=content["owner"],
            migrations=frozenset((app, name) for app, name in content["migrations"]),
            tables={
                name: Table(name, tuple(columns)) for name, columns in content["tables"].items()
            },
            fingerprint=content["fingerprint"],
            keys=content["keys"],
        )


class BackupReader:
    """Reads a backup: first its manifest, then its rows, once.

    Raises WrongKeyError for another key, and DamagedError or NewerFormatError for a file that this
    version does not restore. What was read before such an error is unusable.
    """

    def __init__(self, source: IO[bytes], decryption: "Future[None]") -> None:
        self._source, self._decryption = source, decryption
        self.closing: dict[str, Any] = {}
        with self._readable():
            self._gzip = gzip.GzipFile(fileobj=source)
            self._tar = tarfile.open(fileobj=self._gzip, mode="r|")  # noqa: SIM115 - a pipe
            first = self._next()
            if first is None or first.name != MANIFEST:
                raise DamagedError
            self.manifest = Manifest.parse(self._json(first))

    def tables(self) -> Iterator[tuple[Table, Iterator[bytes]]]:
        """Yield each table that has rows, with these, and set `closing` when the file is verified."""
        for name, members in groupby(iter(self._next, None), _table_name):
            if name is None:
                self._close(members)
                return
            if name not in self.manifest.tables:
                raise DamagedError
            yield self.manifest.tables[name], self._rows(members)
        raise DamagedError

    def _rows(self, members: Iterator[tarfile.TarInfo]) -> Iterator[bytes]:
        for member in members:
            with self._readable():
                file = self._tar.extractfile(member)
                while chunk := file.read(CHUNK_BYTES):  # type: ignore[union-attr]
                    yield chunk

    def _close(self, members: Iterator[tarfile.TarInfo]) -> None:
        """Read the last member, and verify that nothing is missing after it or follows."""
        with self._readable():
            last = next(members)
            if last.name != CLOSING:
                raise DamagedError
            closing = self._json(last)
            if self._next() is not None:
                raise DamagedError
            while self._gzip.read(CHUNK_BYTES):  # zeros, and then the checksum
                pass
            self._decryption.result()
            self.closing = closing

    def _next(self) -> tarfile.TarInfo | None:
        with self._readable():
            member = self._tar.next()
            self._tar.members.clear()  # type: ignore[attr-defined] # grows with every part
            return member

    def _json(self, member: tarfile.TarInfo) -> dict[str, Any]:
        file = self._tar.extractfile(member)
        if file is None or member.size > JSON_MAX_BYTES:
            raise DamagedError
        content: dict[str, Any] = orjson.loads(file.read())
        return content

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Convert the errors of a file that cannot be read to what is wrong with it."""
        try:
            yield
        except (
            tarfile.TarError, EOFError, OSError, zlib.error, pyrage.DecryptError,
            KeyError, TypeError, ValueError, AttributeError,
        ):  # fmt: skip
            # Then age stops too, and its own error comes first: the archive ends where age stopped.
            self._source.close()
            raise _fault(self._decryption.exception()) from None


def _fault(error: BaseException | None) -> BackupError:
    is_wrong_key = isinstance(error, pyrage.DecryptError) and str(error) == WRONG_KEY
    return WrongKeyError() if is_wrong_key else DamagedError()


def _table_name(member: tarfile.TarInfo) -> str | None:
    parts = PurePosixPath(member.name).parts
    return parts[1] if len(parts) == 3 and parts[0] == "tables" else None


@contextmanager
def open_backup(path: Path, identity: Identity) -> Iterator[BackupReader]:
    """Raises NotABackupError, OlderFormatError, OSError and the errors of BackupReader."""
    require_age_file(path)
    source, pipe = _open_pipe()
    with source, path.open("rb") as file, ThreadPoolExecutor(1, "age") as executor:

        def decrypt() -> None:
            with pipe:
                pyrage.decrypt_io(file, pipe, [identity])

        decryption = executor.submit(decrypt)
        try:
            yield BackupReader(source, decryption)
        finally:
            source.close()


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


def _stream_answers(gate: Gate, visible: VisibleRecords) -> Iterator[tuple[str, str]]:
    [connection] = visible.connections
    name = f"{connection.connection_id}/{visible.stream.name}"
    records = read_page(visible, limit=MAX_RECORDS, descending=True, after=None, where=()).records
    yield f"list {name}", _hash([_content(record) for record in records])
    for record in records[:1]:
        yield f"get {name}", _hash(_content(get_record(visible, record.record_key)))
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


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """What a new backup contains. `counts` are rows by table."""

    counts: dict[str, int]
    size_bytes: int
    answers: int
    chains: int

    @property
    def rows(self) -> int:
        return sum(self.counts.values())


def back_up(
    path: Path,
    recipients: Sequence[Recipient],
    *,
    owner_id: str | None = None,
    migrations: Collection[Migration],
    now: datetime,
    on_table: ReportTable = lambda name, rows: None,
) -> Generator[None, None, BackupSummary]:
    """Write a new backup file in steps. It appears only when it is complete.

    With an owner, it contains the rows of that owner alone, and neither their account nor the keys of
    the installation, which would open what is another's. Run it outside of any transaction, and end it
    by closing the generator. Raises BackupExistsError, OSError and DatabaseError.
    """
    if path.exists():
        raise BackupExistsError(str(path))
    with _new_file(path) as file:
        with encrypted(file, recipients) as target, snapshot():
            archive = ArchiveWriter(target)
            tables = backup_tables(owner_id)
            archive.add_json(MANIFEST, _manifest(tables, owner_id, migrations, now=now))
            counts = {}
            for table in tables:
                counts[table.name] = yield from _add_table(archive, table, owner_id)
                on_table(table.name, counts[table.name])
            owner_ids = owners_in(owner_id)
            answers, heads = sample_answers(owner_ids), ledger_heads(owner_ids)
            closing = {"counts": counts, "answers": answers, "ledger_heads": heads}
            archive.add_json(CLOSING, closing)
            archive.close()
        return BackupSummary(counts, file.tell(), len(answers), len(heads))


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


def installation_keys() -> dict[str, Any]:
    """Return the keys in the format of `keys.json`, including fallbacks from the environment."""
    fallbacks = {"secret": settings.SECRET_KEY_FALLBACKS} if settings.SECRET_KEY_FALLBACKS else {}
    rotated = settings.PDPP_ROTATED_KEYS | fallbacks
    return {"secret_key": settings.SECRET_KEY, "rotated": rotated}


def _manifest(
    tables: list[Table], owner_id: str | None, migrations: Collection[Migration], *, now: datetime
) -> dict[str, object]:
    return {
        "format": FORMAT_VERSION,
        "made_at": now.isoformat(),
        "owner": owner_id,
        "server_version": server_version(),
        "migrations": sorted(list(migration) for migration in migrations),
        "tables": {table.name: list(table.columns) for table in tables},
        "fingerprint": key_fingerprints()[0],
        "keys": installation_keys() if owner_id is None else None,
    }


def _add_table(
    archive: ArchiveWriter, table: Table, owner_id: str | None
) -> Generator[None, None, int]:
    total = 0
    with contextlib.closing(dump_rows(table, owner_id)) as batches:
        for number, (rows, count) in enumerate(batches, start=1):
            archive.add(f"tables/{table.name}/{number:06}.copy", rows)
            total += count
            yield
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
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            raise BackupExistsError(str(path)) from None
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
