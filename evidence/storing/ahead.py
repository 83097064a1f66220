"""Making batches on one thread while another writes them."""

import threading
from collections import deque
from collections.abc import Iterator

from evidence.storing.batches import Batch

BATCHES_AHEAD = 6
BYTES_AHEAD = 8 * 1024 * 1024
"""Of lines; what is made of them takes several times as much."""


class _Shelf:
    """Batches made and not yet taken: a few, and never much more than BYTES_AHEAD."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batches: deque[Batch] = deque()
        self._failure: BaseException | None = None
        self._open = True

    def fill(self, batches: Iterator[Batch]) -> None:
        """Runs until there are no more batches, or nobody wants them."""
        failure = None
        try:
            for batch in batches:
                if not self._put(batch):
                    return
        except BaseException as error:  # noqa: BLE001 - it is raised again where batches are taken
            failure = error
        with self._changed:
            self._failure, self._open = failure, False
            self._changed.notify_all()

    def take(self) -> Batch | None:
        """The next batch; None after the last."""
        with self._changed:
            self._changed.wait_for(lambda: self._batches or not self._open)
            if not self._batches:
                if self._failure is not None:
                    raise self._failure
                return None
            batch = self._batches.popleft()
            self._changed.notify_all()
            return batch

    def close(self) -> None:
        with self._changed:
            self._open = False
            self._batches.clear()
            self._changed.notify_all()

    def _put(self, batch: Batch) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(batch) or not self._open)
            if self._open:
                self._batches.append(batch)
                self._changed.notify_all()
            return self._open

    def _has_room(self, batch: Batch) -> bool:
        if not self._batches:
            return True
        size = batch.size + sum(each.size for each in self._batches)
        return size <= BYTES_AHEAD and len(self._batches) < BATCHES_AHEAD


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
        maker.join()
