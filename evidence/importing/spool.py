"""Files that wait until the records that name them are stored; on disk, not in memory."""

import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from evidence.importing.items import File

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
