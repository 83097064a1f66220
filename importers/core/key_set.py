"""Remember which of very many keys occurred, in a compact hash set and, to resume a run, in a log.

A hash set takes about nine bytes per key: of the 64 bits of a hash it uses some as a slot, and
stores 48. Among ten million keys, the probability of any collision is one in a million; in a
collision the second record would count as a duplicate.
"""

from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

_MIN_SLOTS = 1 << 16


class _HashTable:
    """A hash table with open addressing and a fixed size: resizing takes three times the memory."""

    def __init__(self, size: int) -> None:
        self._tags = array("I", bytes(4 * size))
        self._low_bits = array("H", bytes(2 * size))
        self._mask = size - 1
        self._free = size * 2 // 3

    @property
    def is_full(self) -> bool:
        return self._free <= 0

    @property
    def size(self) -> int:
        return self._mask + 1

    def find_slot(self, hashed: int) -> int | None:
        """Return a free slot for a hash, or None if the table contains it."""
        tags, low_bits, mask = self._tags, self._low_bits, self._mask
        tag, low = _tag(hashed), hashed >> 16 & 0xFFFF
        slot = hashed * 0x9E3779B97F4A7C15 >> 20 & mask
        while slot_tag := tags[slot]:
            if slot_tag == tag and low_bits[slot] == low:
                return None
            slot = (slot + 1) & mask
        return slot

    def put(self, slot: int, hashed: int) -> None:
        self._tags[slot] = _tag(hashed)
        self._low_bits[slot] = hashed >> 16 & 0xFFFF
        self._free -= 1


class KeySet:
    """A set of 64-bit hashes in tables of which each has twice the size of the one before."""

    def __init__(self) -> None:
        self._tables = [_HashTable(_MIN_SLOTS)]

    def add(self, hashed: int) -> bool:
        """Add a hash, and return whether it is new."""
        slot = None
        for table in self._tables:
            slot = table.find_slot(hashed)
            if slot is None:
                return False
        latest = self._tables[-1]
        if latest.is_full:
            latest = _HashTable(latest.size * 2)
            self._tables.append(latest)
            slot = latest.find_slot(hashed)
        if slot is not None:
            latest.put(slot, hashed)
        return True


def key_hash(stream: str, key: str) -> int:
    """Return 64 bits of a stream and key, never zero."""
    digest = blake2b(f"{stream}\0{key}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


def _tag(hashed: int) -> int:
    """Return the upper half, never zero, which marks a free slot."""
    return hashed >> 32 or 1


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
