"""Pieces -> lines for the store, with what is to be known of each line once it is stored.

A feed is read on the thread that prepares batches; ``stored`` is called on the one that writes.
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

from evidence import limits
from evidence.storing.ndjson import Line
from importers.core.results import (
    Code,
    File,
    Item,
    Piece,
    Pieces,
    Remark,
    Row,
    UnreadableError,
    said,
)
from importers.core.text import plain
from importers.runs.seen_keys import KeySet, number_of
from importers.runs.store import Said

PIECE_BYTES = 256 * 1024


class Waiting(NamedTuple):
    """``line`` is that of its record; ``offset`` and ``size`` where its bytes are."""

    line: int
    stream: str
    key: str
    blob_id: str
    media_type: str
    offset: int
    size: int


class Spool:
    """One thread puts files in, another takes them out, in the same order."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="pdpp-import-")  # noqa: SIM115 - until close
        self._lock = threading.Lock()
        self._waiting: deque[Waiting] = deque()
        self._end = 0

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return self._end

    def put(self, line: int, file: File) -> None:
        with self._lock:
            self._file.seek(self._end)
            self._file.write(file.content)
            size = len(file.content)
            self._waiting.append(
                Waiting(line, file.stream, file.key, file.blob_id, file.media_type, self._end, size)
            )
            self._end += size

    def take(self, *, up_to: int) -> list[Waiting]:
        """The files of records up to this line."""
        with self._lock:
            taken = []
            while self._waiting and self._waiting[0].line <= up_to:
                taken.append(self._waiting.popleft())
            return taken

    def chunks(self, waiting: Waiting) -> Iterator[bytes]:
        for start in range(0, waiting.size, PIECE_BYTES):
            with self._lock:
                self._file.seek(waiting.offset + start)
                chunk = self._file.read(min(PIECE_BYTES, waiting.size - start))
            yield chunk

    def shrink(self) -> None:
        """Gives the disk back once everything was taken out."""
        with self._lock:
            if not self._waiting and self._end:
                self._file.truncate(0)
                self._end = 0

    def close(self) -> None:
        self._file.close()


SPOOL_BYTES = 256 * 1024 * 1024
"""So many bytes of files on disk, and lines pause until the files are stored."""
KEY_BYTES = limits.RECORD_KEY_MAX_BYTES

_NUL = rb"\u0000"

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Mark:
    """A piece whose last line is ``line``, without what was made of it."""

    line: int
    item: int
    file: str
    place: str
    size: int
    remarks: list[Remark] = field(default_factory=list)
    doubles: int = 0
    rows: list[str] = field(default_factory=list)
    keys: "array[int]" = field(default_factory=lambda: array("Q"))


class Feed:
    """``skip`` pieces are done already; ``seen`` has the keys of their rows."""

    def __init__(
        self, pieces: Pieces, *, connection_id: str, skip: int, seen: KeySet, spool: Spool
    ) -> None:
        self.number = 0
        self.more = True
        self._pieces = enumerate(pieces)
        self._connection_id = connection_id
        self._skip = skip
        self._seen = seen
        self._spool = spool
        self._marks: deque[Mark] = deque()
        self._refused: dict[int, Remark] = {}
        self._lock = threading.Lock()

    def lines(self) -> Iterator[Line]:
        """Lines until the pieces or the room for files are used up; ``more`` says which."""
        for item, piece in self._rest():
            if item < self._skip:
                continue
            mark = Mark(self.number, item, piece.file, piece.place, piece.size)
            yield from self._of_piece(piece, mark)
            mark.line = self.number
            with self._lock:
                self._marks.append(mark)
            if self._spool.size >= SPOOL_BYTES:
                return
        self.more = False

    def stored(self, *, up_to: int) -> list[Mark]:
        """The pieces of which every line up to this one has been dealt with, in order."""
        with self._lock:
            done = []
            while self._marks and self._marks[0].line <= up_to:
                mark = self._marks.popleft()
                lines = [line for line in self._refused if line <= mark.line]
                mark.remarks += [self._refused.pop(line) for line in lines]
                done.append(mark)
            return done

    def refused(self, line: int, remark: Remark) -> None:
        """Notes what the store said of a line, whose piece may not be through yet."""
        with self._lock:
            self._refused[line] = remark

    def _rest(self) -> Iterator[tuple[int, Piece]]:
        """What a reader does not expect ends its export, not the run."""
        item = -1
        try:
            for item, piece in self._pieces:
                yield item, piece
        except Exception as error:
            logger.exception("a reader failed")
            self._pieces = enumerate(())
            failed = Remark(Code.UNREADABLE, type(error).__name__)
            yield item + 1, Piece("", "", 0, said([failed]))

    def _of_piece(self, piece: Piece, mark: Mark) -> Iterator[Line]:
        item = _made(piece)
        mark.remarks += item.remarks
        for row in item.rows:
            key = row.data["id"]
            number = number_of(row.stream, key)
            if not self._seen.add(number):
                mark.doubles += 1
                continue
            content = self._content(row)
            if content is None:
                mark.remarks.append(Remark(Code.UNREADABLE, "nested too deeply"))
                continue
            mark.keys.append(number)
            mark.rows.append(row.stream)
            self.number += 1
            # Before the line: once that is out, it may be stored and asked for its files.
            for file in item.files:
                if (file.stream, file.key) == (row.stream, key):
                    self._spool.put(self.number, file)
            yield Line(self.number, content)

    def _content(self, row: Row) -> bytes | None:
        """The row as a line; None for one that is nested as deep as no line may be."""
        line = {
            "connection_id": self._connection_id,
            "stream": row.stream,
            "key": row.data["id"],
            "data": row.data,
        }
        with contextlib.suppress(TypeError):
            content = orjson.dumps(line)
            if _NUL not in content:
                return content
        try:
            return orjson.dumps(plain(line))
        except (TypeError, RecursionError):
            return None


def _made(piece: Piece) -> Item:
    """What the piece says, whatever it does to whoever reads it."""
    try:
        return piece.make()
    except UnreadableError as error:
        return Item(remarks=[error.remark])
    except Exception as error:  # noqa: BLE001 - an export may hold anything, and one piece is one
        logger.warning("a piece could not be read: %s", type(error).__name__)
        return Item(remarks=[Remark(Code.UNREADABLE, type(error).__name__)])


def said_of(mark: Mark) -> list[Said]:
    return [Said(mark.item, mark.file, mark.place, each) for each in mark.remarks]
