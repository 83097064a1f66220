"""Convert parsed items to ingest lines, and keep attachments on disk until records are stored.

Totals count the records by stream, account and currency, to compare with the original.

One thread reads the lines of a feed and prepares batches; another one writes the batches and calls
``finished_items``.
"""

import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import orjson

from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.errors import InvalidRequest
from evidence.write.blobs import CHUNK_BYTES, SmallFile, put_blob, put_small_files, stored_blobs
from evidence.write.ndjson import NdjsonLine
from importers.bank.amounts import EXPONENTS
from importers.core.readers import KeySet
from importers.core.results import Issue, ReceiptCode, without_repeated
from importers.core.sandbox import FileHeader, ReceivedItem, RecordHeader, SandboxError
from importers.runs.store import PendingReceipt

SMALL_FILES = 32
"""Files of at most CHUNK_BYTES that are stored together."""
SPOOL_MAX_BYTES = 256 * 1024 * 1024
"""With more bytes on disk, the feed pauses until the files are stored."""
SLICE_SECONDS = 10.0
"""Time after which the imports of other owners have their turn."""
MAX_TOTALS = 500
"""Further accounts and currencies of a stream count together."""
_DATE_CHARS = 10
TotalKey = tuple[str, str, str]
"""Stream, account and currency."""


@dataclass(frozen=True, slots=True)
class SpooledFile(FileHeader):
    """A file in the spool, with the line of its record."""

    line: int
    offset: int


class AttachmentSpool:
    """A queue of files in a temporary file. Thread-safe."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="pdpp-import-")  # noqa: SIM115 - until close
        self._lock = threading.Lock()
        self._files: deque[SpooledFile] = deque()
        self._is_receiving = False
        self.size = 0
        """Bytes on disk."""

    def write(self, size: int, read: Callable[[int], bytes]) -> int:
        """Write ``size`` bytes and return their offset. Call ``put`` or ``release`` afterwards."""
        with self._lock:
            self._is_receiving = True
        offset = self.size
        for start in range(0, size, CHUNK_BYTES):
            chunk = read(min(CHUNK_BYTES, size - start))
            with self._lock:
                self._file.seek(offset + start)
                self._file.write(chunk)
        self.size += size
        return offset

    def put(self, line: int, file: FileHeader, offset: int) -> None:
        """Add a written file to the queue."""
        with self._lock:
            self._files.append(SpooledFile(**asdict(file), line=line, offset=offset))

    def release(self) -> None:
        """Allow truncation again, after all written files are in the queue."""
        with self._lock:
            self._is_receiving = False

    def take(self, *, up_to: int) -> list[SpooledFile]:
        """Remove and return the files of records up to this line."""
        with self._lock:
            files = []
            while self._files and self._files[0].line <= up_to:
                files.append(self._files.popleft())
            return files

    def chunks(self, file: SpooledFile) -> Iterator[bytes]:
        for start in range(0, file.size, CHUNK_BYTES):
            with self._lock:
                self._file.seek(file.offset + start)
                chunk = self._file.read(min(CHUNK_BYTES, file.size - start))
            yield chunk

    def truncate(self) -> None:
        """Free the disk space if the queue is empty."""
        with self._lock:
            if not self._files and self.size and not self._is_receiving:
                self._file.truncate(0)
                self.size = 0

    def close(self) -> None:
        self._file.close()


def store_files(
    spool: AttachmentSpool, files: Iterable[SpooledFile], *, connection_id: str, now: datetime
) -> list[SpooledFile]:
    """Store files of stored records; return those that were new. Leaves out those of erased records."""
    found = {file.blob_id: file for file in files}
    known = stored_blobs(connection_id, found)
    new = [file for file in found.values() if file.blob_id not in known]
    small = iter([file for file in new if file.size <= CHUNK_BYTES])
    stored = set[str]()
    while group := list(islice(small, SMALL_FILES)):
        contents = (
            SmallFile(
                file.blob_id, file.stream, file.key, file.media_type, b"".join(spool.chunks(file))
            )
            for file in group
        )
        stored |= put_small_files(connection_id, list(contents), now=now)
    for file in new:
        if file.size > CHUNK_BYTES:
            with suppress(InvalidRequest):  # the owner erased the record during the import
                blob = put_blob(
                    connection_id,
                    stream=file.stream,
                    record_key=file.key,
                    media_type=file.media_type,
                    chunks=spool.chunks(file),
                    now=now,
                    blob_id=file.blob_id,
                )
                stored.add(blob.blob_id)
    return [file for file in new if file.blob_id in stored]


class RecordSummary(NamedTuple):
    """What counts of one record in the totals. ``name`` is that of an account.

    ``line`` is the line of the feed that stores the record.
    """

    stream: str
    account: str = ""
    currency: str = ""
    day: str = ""
    amount: Decimal | None = None
    name: str = ""
    line: int = 0


@dataclass(slots=True)
class Total:
    """Items of one account in one currency, and what became of them. Dates are in ISO 8601."""

    items: int = 0
    first: str = ""
    last: str = ""
    sum: Decimal | None = None
    new: int = 0
    changed: int = 0
    refused: int = 0


@dataclass(slots=True)
class ImportTotals:
    """Totals of the records of an import. ``fields`` are the time and amount field by stream."""

    fields: Mapping[str, tuple[str, str]]
    names: dict[str, str] = field(default_factory=dict)
    totals: dict[TotalKey, Total] = field(default_factory=dict)

    @classmethod
    def of(cls, declaration: bytes) -> "ImportTotals":
        return cls(_fields(declaration))

    def summarize(self, stream: str, content: bytes, *, line: int = 0) -> RecordSummary:
        """Return what counts of a record, whose content may be anything."""
        time_field, amount_field = self.fields.get(stream, ("", ""))
        try:
            data = orjson.loads(content)
        except orjson.JSONDecodeError:
            data = None
        if not isinstance(data, dict):
            return RecordSummary(stream, line=line)
        amount = data.get(amount_field) if amount_field else None
        is_account = stream == "accounts"
        return RecordSummary(
            stream,
            str(data.get("account_id") or (data.get("id") if is_account else "") or "")[:200],
            str(data.get("currency") or "")[:10] if amount_field else "",
            str(data.get(time_field) or "")[:_DATE_CHARS],
            Decimal(str(amount)) if type(amount) in (int, float) else None,
            str(data.get("name") or "")[:200] if is_account else "",
            line,
        )

    def add(
        self,
        summaries: Iterable[RecordSummary],
        *,
        new: Set[int] = frozenset(),
        changed: Set[int] = frozenset(),
        refused: Set[int] = frozenset(),
    ) -> None:
        """Add records; those whose line is in none of the sets are unchanged."""
        for stream, account, currency, day, amount, name, line in summaries:
            if stream == "accounts":
                self.names[account] = name
            key = (stream, "" if stream == "accounts" else account, currency)
            if key not in self.totals and len(self.totals) >= MAX_TOTALS:
                key = (stream, "", "")
            total = self.totals.setdefault(key, Total())
            total.items += 1
            if day:
                total.first = min(total.first or day, day)
                total.last = max(total.last, day)
            if amount is not None:
                total.sum = (total.sum or Decimal()) + amount
            total.new += line in new
            total.changed += line in changed
            total.refused += line in refused

    def to_json(self) -> dict[str, Any]:
        lines = [
            [*key, *(str(each) if isinstance(each, Decimal) else each for each in astuple(total))]
            for key, total in self.totals.items()
        ]
        return {"names": self.names, "lines": lines}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue the totals of an interrupted run."""
        self.names = dict(saved.get("names", {}))
        for stream, account, currency, items, first, last, sum_, *stored in saved.get("lines", ()):
            self.totals[stream, account, currency] = Total(
                items, first, last, None if sum_ is None else Decimal(sum_), *stored
            )


def total_lines(totals: Mapping[str, Any], *, source: str) -> Iterator[str]:
    """Yield the lines of a table: items, source and account, first and last date, and sum."""
    rows = [("Items", "Source and account", "First", "Last", "Sum")]
    for stream, account, currency, items, first, last, sum_, *_ in sorted(totals.get("lines", ())):
        name = totals["names"].get(account, "")
        money = "" if sum_ is None else format_sum(Decimal(sum_), currency)
        rows.append(
            (f"{items:,} {stream}", ", ".join(filter(None, (source, name))), first, last, money)
        )
    if len(rows) == 1:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def format_sum(amount: Decimal, currency: str) -> str:
    """Return a sum with the digits of its currency."""
    digits = max(EXPONENTS.get(currency, 2), -int(amount.normalize().as_tuple().exponent))
    return f"{amount:,.{digits}f} {currency or '(no currency)'}"


@cache
def declares_files(declaration: bytes, stream: str) -> bool:
    """Return whether records of a stream are files. A mail is none, though its HTML is stored as one."""
    streams = {each["name"]: each for each in orjson.loads(declaration)["streams"]}
    return stream in streams and BLOB_REFERENCE in streams[stream]["schema"]["properties"]


@cache
def _fields(declaration: bytes) -> dict[str, tuple[str, str]]:
    fields = {}
    for stream in orjson.loads(declaration)["streams"]:
        properties = stream["schema"]["properties"]
        amounts = [
            name for name, each in properties.items() if each.get("x_pdpp_type") == "currency"
        ]
        time_field = stream.get("consent_time_field") or stream.get("cursor_field") or ""
        fields[stream["name"]] = (time_field, amounts[0] if amounts else "")
    return fields


@dataclass(slots=True)
class ItemProgress:
    """What is left to do for an item after its last line is stored."""

    last_line: int
    number: int
    file: str
    location: str
    size: int
    issues: list[Issue] = field(default_factory=list)
    duplicates: int = 0
    summaries: list[RecordSummary] = field(default_factory=list)


class RecordFeed:
    """The lines of an export. ``seen`` has the keys of the items before the first of ``items``."""

    def __init__(
        self,
        items: Iterator[ReceivedItem],
        *,
        connection_id: str,
        seen: KeySet,
        spool: AttachmentSpool,
        totals: ImportTotals | None = None,
    ) -> None:
        self._totals = totals or ImportTotals({})
        self.line = 0
        self.has_more = True
        self._items = items
        self._connection_id = connection_id
        self._seen = seen
        self._spool = spool
        self._progress: deque[ItemProgress] = deque()
        self._rejected: dict[int, Issue] = {}
        self._reported: set[ReceiptCode] = set()
        self._lock = threading.Lock()

    def lines(self) -> Iterator[NdjsonLine]:
        """Yield lines until the export ends, the spool is full or a slice of time is over.

        ``has_more`` tells whether the export ended.
        """
        started = time.monotonic()
        for item in self._items:
            progress = ItemProgress(self.line, item.number, item.file, item.location, item.size)
            yield from self._item_lines(item, progress)
            if item.is_cut:
                continue
            progress.issues = list(without_repeated(item.issues, self._reported))
            progress.last_line = self.line
            with self._lock:
                self._progress.append(progress)
            is_over = time.monotonic() - started >= SLICE_SECONDS
            if is_over or self._spool.size >= SPOOL_MAX_BYTES:
                return
        self.has_more = False

    def finished_items(self, *, up_to: int) -> list[ItemProgress]:
        """Remove and return the items whose last line is at most ``up_to``, in order."""
        with self._lock:
            finished = []
            while self._progress and self._progress[0].last_line <= up_to:
                progress = self._progress.popleft()
                lines = [line for line in self._rejected if line <= progress.last_line]
                progress.issues += [self._rejected.pop(line) for line in lines]
                finished.append(progress)
            return finished

    def add_rejected(self, line: int, issue: Issue) -> None:
        """Add an issue of a line to its item, which may not be finished yet."""
        with self._lock:
            self._rejected[line] = issue

    def _item_lines(self, item: ReceivedItem, progress: ItemProgress) -> Iterator[NdjsonLine]:
        """Receive an item completely, and yield the lines of its new records."""
        try:
            files = [(file, self._spool.write(file.size, item.read)) for file in item.files]
            contents = [item.read(record.size) for record in item.records]
        except SandboxError:
            self._spool.release()
            item.is_cut = True
            return
        for record, content in zip(item.records, contents, strict=True):
            stream, key = record.stream, record.key
            if not self._seen.add(f"{stream}\0{key}", item=item.number):
                progress.duplicates += 1
                continue
            self.line += 1
            progress.summaries.append(self._totals.summarize(stream, content, line=self.line))
            # Spool files before the line, because the other thread may store the line at once.
            for file, offset in files:
                if (file.stream, file.key) == (stream, key):
                    self._spool.put(self.line, file, offset)
            line = upsert_line(record, content, connection_id=self._connection_id)
            yield NdjsonLine(self.line, line)
        self._spool.release()
        for stale in item.stale:
            self.line += 1
            prune = {
                "connection_id": self._connection_id,
                "stream": stale.stream,
                "op": "prune",
                "key": stale.key,
                "data": {"keep": stale.keep, "from": stale.first},
            }
            yield NdjsonLine(self.line, orjson.dumps(prune))


def upsert_line(
    record: RecordHeader, data: bytes, *, connection_id: str, only: Sequence[str] | None = None
) -> bytes:
    """Return the line of a record. Of a stored one, it changes the fields in ``only`` if given."""
    # The last of several members with one name counts: data that is no single JSON value cannot
    # change the members that follow it.
    address = {
        "op": "upsert",
        "emitted_at": None,
        "connection_id": connection_id,
        "stream": record.stream,
        "key": record.key,
        "replaces": record.replaces,
        "unknown": record.unknown,
        "only": only,
    }
    return b'{"data":' + data + b"," + orjson.dumps(address)[1:]


def pending_receipts(item: ItemProgress) -> list[PendingReceipt]:
    return [PendingReceipt(item.number, item.file, item.location, issue) for issue in item.issues]
