"""A set of very many keys in little memory: of the 64 bits of each the place it would take and 48
more, nine bytes or so a key.

Ten million different keys are all told apart but with a chance of one in a million; where two are
not, the second record passes for a double of the first.
"""

from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

_FEWEST = 1 << 16


class _Table:
    """Open addressing in a table that never grows: growing would take three times its memory."""

    def __init__(self, size: int) -> None:
        self._tags = array("I", bytes(4 * size))
        self._more = array("H", bytes(2 * size))
        self._last = size - 1
        self._room = size * 2 // 3

    @property
    def is_full(self) -> bool:
        return self._room <= 0

    @property
    def size(self) -> int:
        return self._last + 1

    def place(self, number: int) -> int | None:
        """Where it can be put; None when it is there."""
        tags, more, last = self._tags, self._more, self._last
        tag, rest = _tag(number), number >> 16 & 0xFFFF
        place = number * 0x9E3779B97F4A7C15 >> 20 & last
        while found := tags[place]:
            if found == tag and more[place] == rest:
                return None
            place = (place + 1) & last
        return place

    def put(self, place: int, number: int) -> None:
        self._tags[place] = _tag(number)
        self._more[place] = number >> 16 & 0xFFFF
        self._room -= 1


class KeySet:
    """Of numbers of 64 bits: a table, and once that is full another one of twice the size."""

    def __init__(self) -> None:
        self._tables = [_Table(_FEWEST)]

    def add(self, number: int) -> bool:
        """Whether it is new."""
        place = None
        for table in self._tables:
            place = table.place(number)
            if place is None:
                return False
        latest = self._tables[-1]
        if latest.is_full:
            latest = _Table(latest.size * 2)
            self._tables.append(latest)
            place = latest.place(number)
        if place is not None:
            latest.put(place, number)
        return True


def number_of(stream: str, key: str) -> int:
    """64 bits of a stream and key, never zero."""
    digest = blake2b(f"{stream}\0{key}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


def _tag(number: int) -> int:
    """The upper half; zero marks a free place."""
    return number >> 32 or 1


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

    def append(self, stored: Iterable[tuple[int, Iterable[int]]], *, items: int) -> None:
        """Append the keys of each item number, then the count of complete items."""
        pairs = array("Q")
        for item, keys in stored:
            for key in keys:
                pairs.extend((item, key))
        pairs.extend((items, 0))
        with self._path.open("ab") as log:
            log.write(pairs.tobytes())

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
