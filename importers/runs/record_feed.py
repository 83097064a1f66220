"""Convert parsed items to ingest lines, and keep attachments on disk until records are stored.

One thread reads the lines of a feed and prepares batches; another one writes the batches and calls
``finished_items``.
"""

import contextlib
import logging
import tempfile
import threading
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from evidence.storing.ndjson import NdjsonLine
from importers.core.results import (
    ExportItem,
    ExportItems,
    Issue,
    ParsedFile,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    StaleRecords,
    UnreadableError,
    issues_only,
)
from importers.core.text import to_storable_json
from importers.runs.seen_keys import KeySet, key_hash
from importers.runs.store import PendingReceipt

CHUNK_BYTES = 256 * 1024


class SpooledFile(NamedTuple):
    """A file in the spool, with the line of its record."""

    line: int
    stream: str
    key: str
    blob_id: str
    media_type: str
    offset: int
    size: int


class AttachmentSpool:
    """A queue of files in a temporary file. Thread-safe."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="pdpp-import-")  # noqa: SIM115 - until close
        self._lock = threading.Lock()
        self._files: deque[SpooledFile] = deque()
        self._end = 0

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self._end

    def put(self, line: int, file: ParsedFile) -> None:
        with self._lock:
            self._file.seek(self._end)
            self._file.write(file.content)
            size = len(file.content)
            self._files.append(
                SpooledFile(
                    line, file.stream, file.key, file.blob_id, file.media_type, self._end, size
                )
            )
            self._end += size

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
            if not self._files and self._end:
                self._file.truncate(0)
                self._end = 0

    def close(self) -> None:
        self._file.close()


SPOOL_MAX_BYTES = 256 * 1024 * 1024
"""With more bytes on disk, the feed pauses until the files are stored."""

_NUL = rb"\u0000"

logger = logging.getLogger(__name__)


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
    streams: list[str] = field(default_factory=list)
    keys: "array[int]" = field(default_factory=lambda: array("Q"))


class RecordFeed:
    """The lines of an export. The first ``skip`` items are done; ``seen`` has their keys."""

    def __init__(
        self,
        items: ExportItems,
        *,
        connection_id: str,
        skip: int,
        seen: KeySet,
        spool: AttachmentSpool,
    ) -> None:
        self.line = 0
        self.has_more = True
        self._items = enumerate(items)
        self._connection_id = connection_id
        self._skip = skip
        self._seen = seen
        self._spool = spool
        self._progress: deque[ItemProgress] = deque()
        self._rejected: dict[int, Issue] = {}
        self._lock = threading.Lock()

    def lines(self) -> Iterator[NdjsonLine]:
        """Yield lines until the export ends or the spool is full; ``has_more`` tells which."""
        for number, item in self._remaining_items():
            if number < self._skip:
                continue
            progress = ItemProgress(self.line, number, item.file, item.location, item.size)
            yield from self._item_lines(item, progress)
            progress.last_line = self.line
            with self._lock:
                self._progress.append(progress)
            if self._spool.size >= SPOOL_MAX_BYTES:
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

    def _remaining_items(self) -> Iterator[tuple[int, ExportItem]]:
        """Yield the items. An unexpected error of an importer ends the export, not the run."""
        number = -1
        try:
            for number, item in self._items:
                yield number, item
        except Exception as error:
            logger.exception("an importer failed")
            self._items = enumerate(())
            issue = Issue(ReceiptCode.UNREADABLE, type(error).__name__)
            yield number + 1, ExportItem("", "", 0, issues_only([issue]))

    def _item_lines(self, item: ExportItem, progress: ItemProgress) -> Iterator[NdjsonLine]:
        parsed = _parse(item)
        progress.issues += parsed.issues
        for record in parsed.records:
            key = record.data["id"]
            hashed = key_hash(record.stream, key)
            if not self._seen.add(hashed):
                progress.duplicates += 1
                continue
            content = self._serialize(record)
            if content is None:
                progress.issues.append(Issue(ReceiptCode.UNREADABLE, "nested too deeply"))
                continue
            progress.keys.append(hashed)
            progress.streams.append(record.stream)
            self.line += 1
            # Spool files before the line, because the other thread may store the line at once.
            for file in parsed.files:
                if (file.stream, file.key) == (record.stream, key):
                    self._spool.put(self.line, file)
            yield NdjsonLine(self.line, content)
        for stale in parsed.stale:
            self.line += 1
            yield NdjsonLine(self.line, self._serialize_stale(stale))

    def _serialize_stale(self, stale: StaleRecords) -> bytes:
        return orjson.dumps(
            {
                "connection_id": self._connection_id,
                "stream": stale.stream,
                "op": "prune",
                "key": stale.key,
                "data": {"keep": stale.keep, "from": stale.first},
            }
        )

    def _serialize(self, record: ParsedRecord) -> bytes | None:
        """Return the record as a line, or None for a record that is nested too deeply."""
        line = {
            "connection_id": self._connection_id,
            "stream": record.stream,
            "key": record.data["id"],
            "data": record.data,
        }
        if record.replaces:
            line["replaces"] = record.replaces
        with contextlib.suppress(TypeError):
            content = orjson.dumps(line)
            if _NUL not in content:
                return content
        try:
            return orjson.dumps(to_storable_json(line))
        except (TypeError, RecursionError):
            return None


def _parse(item: ExportItem) -> ParsedItem:
    """Parse an item, and convert every error to an issue."""
    try:
        return item.parse()
    except UnreadableError as error:
        return ParsedItem(issues=[error.issue])
    except Exception as error:  # noqa: BLE001 - an error in one item must not stop the others
        logger.warning("an item could not be read: %s", type(error).__name__)
        return ParsedItem(issues=[Issue(ReceiptCode.UNREADABLE, type(error).__name__)])


def pending_receipts(item: ItemProgress) -> list[PendingReceipt]:
    return [PendingReceipt(item.number, item.file, item.location, issue) for issue in item.issues]
