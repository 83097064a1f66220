"""Log the record keys that a run has stored on disk, for resuming it."""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

from importers.core.key_set import KeySet

_BLOCK_BYTES = 64 * 1024


class KeyLog:
    """A file of pairs of an item number and a key hash.

    A pair of a count and zero states that this many items are complete.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, *, items: int) -> KeySet | None:
        """Return the hashes of the first ``items``, or None if the log is incomplete."""
        seen, is_complete = KeySet(), False
        try:
            for item, hashed in self._pairs():
                if hashed and item < items:
                    seen.add(hashed)
                is_complete = is_complete or (not hashed and item == items)
        except (OSError, ValueError):
            return None
        return seen if is_complete else None

    def _pairs(self) -> Iterator[tuple[int, int]]:
        with self._path.open("rb") as log:
            while block := log.read(_BLOCK_BYTES):
                pairs = array("Q", block)
                yield from zip(pairs[::2], pairs[1::2], strict=True)

    def start(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_bytes(b"")

    def append(self, stored: Iterable[tuple[int, Iterable[int]]], *, items: int) -> None:
        """Append the hashes of each item, and then the count of complete items."""
        pairs = array("Q")
        for item, hashes in stored:
            for hashed in hashes:
                pairs.extend((item, hashed))
        pairs.extend((items, 0))
        with self._path.open("ab") as log:
            log.write(pairs.tobytes())

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
