"""Which keys a run has stored, on disk beside the database, so that another can go on from there.

It can be lost at any time: a run that finds no log, or one that does not reach as far as the
database says, starts over, and the store finds nothing new in what is there already. Whoever uses
a log holds the lock of its export (``running``).
"""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

from evidence.importing.feeding import Mark
from evidence.importing.key_set import KeySet

_BLOCK_BYTES = 64 * 1024


class KeyLog:
    """Pairs of an item and one of its keys; the pair of a count and zero says that this many
    items are complete."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, *, items: int) -> KeySet | None:
        """The keys of the first ``items``; None when the log does not have them all."""
        seen, complete = KeySet(), False
        try:
            for item, key in self._pairs():
                if key and item < items:
                    seen.add(key)
                complete = complete or (not key and item == items)
        except (OSError, ValueError):
            return None
        return seen if complete else None

    def _pairs(self) -> Iterator[tuple[int, int]]:
        with self._path.open("rb") as log:
            while block := log.read(_BLOCK_BYTES):
                pairs = array("Q", block)
                yield from zip(pairs[::2], pairs[1::2], strict=True)

    def start(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_bytes(b"")

    def append(self, marks: Iterable[Mark], *, items: int) -> None:
        pairs = array("Q")
        for mark in marks:
            for key in mark.keys:
                pairs.extend((mark.item, key))
        pairs.extend((items, 0))
        with self._path.open("ab") as log:
            log.write(pairs.tobytes())

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
