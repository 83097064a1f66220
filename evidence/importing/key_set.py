"""A set of very many keys in little memory: 64 bits of each, 12 bytes or so a key.

That two of ten million different keys agree in 64 bits has a chance of one in four hundred
thousand; then the second record would pass for a double of the first.
"""

from array import array
from hashlib import blake2b

_FEWEST = 1024


class KeySet:
    """Open addressing over unsigned 64-bit numbers; zero marks a free place."""

    def __init__(self) -> None:
        self._places = array("Q", bytes(8 * _FEWEST))
        self._count = 0

    def add(self, number: int) -> bool:
        """Whether it is new."""
        if self._count * 3 >= len(self._places) * 2:
            self._grow()
        return self._put(number)

    def _put(self, number: int) -> bool:
        places, last = self._places, len(self._places) - 1
        place = number & last
        while found := places[place]:
            if found == number:
                return False
            place = (place + 1) & last
        places[place] = number
        self._count += 1
        return True

    def _grow(self) -> None:
        old = self._places
        self._places = array("Q", bytes(16 * len(old)))
        self._count = 0
        for number in old:
            if number:
                self._put(number)


def number_of(stream: str, key: str) -> int:
    """64 bits of a stream and key, never zero."""
    digest = blake2b(f"{stream}\0{key}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1
