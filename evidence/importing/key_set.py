"""A set of very many keys in little memory: of the 64 bits of each the place it would take and 48
more, nine bytes or so a key.

Ten million different keys are all told apart but with a chance of one in a million; where two are
not, the second record passes for a double of the first.
"""

from array import array
from hashlib import blake2b

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
