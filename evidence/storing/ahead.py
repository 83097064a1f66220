"""Making batches on one thread while another writes them."""

import threading
from collections import deque
from collections.abc import Iterator

from evidence.storing.batches import Batch

BATCHES_AHEAD = 6
BYTES_AHEAD = 12 * 1024 * 1024
"""Of lines, the batch in use included; what is made of them takes several times as much."""

PATIENCE_SECONDS = 10


class _Shelf:
    """Batches made and not yet done with: a few, and none is begun while they are large."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batches: deque[Batch] = deque()
        self._in_use = 0
        self._failure: BaseException | None = None
        self._open = True

    def fill(self, batches: Iterator[Batch]) -> None:
        """Runs until there are no more batches, or nobody wants them."""
        try:
            while self._has_room() and (batch := next(batches, None)) is not None:
                self._put(batch)
        except BaseException as error:  # noqa: BLE001 - it is raised again where batches are taken
            self._failure = error
        self.close()

    def take(self) -> Batch | None:
        """The next batch; None after the last. Whoever takes one is done with the one before."""
        with self._changed:
            self._in_use = 0
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._batches or not self._open)
            if self._batches:
                batch = self._batches.popleft()
                self._in_use = batch.size
                return batch
        if self._failure is not None:
            raise self._failure
        return None

    def close(self) -> None:
        with self._changed:
            self._open = False
            self._changed.notify_all()

    def _put(self, batch: Batch) -> None:
        with self._changed:
            self._batches.append(batch)
            self._changed.notify_all()

    def _has_room(self) -> bool:
        """Waits for room; false when nobody wants more."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open or self._is_low())
            return self._open

    def _is_low(self) -> bool:
        size = self._in_use + sum(batch.size for batch in self._batches)
        return size < BYTES_AHEAD and len(self._batches) < BATCHES_AHEAD


def ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, the next ones made while one is in use."""
    shelf = _Shelf()
    maker = threading.Thread(target=shelf.fill, args=(batches,), name="prepare", daemon=True)
    maker.start()
    try:
        while (batch := shelf.take()) is not None:
            yield batch
    finally:
        shelf.close()
        # A maker that waits for a line which never comes must not keep its process.
        maker.join(timeout=PATIENCE_SECONDS)
