"""Deterministic random choices, equal on every machine and Python version.

The standard library guarantees this only for `random()`, so this is splitmix64 in integers. Each
generator is seeded by a name, so adding records of one kind changes no others.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")
SEED = "pdpp demo life 1"
_MASK = (1 << 64) - 1


class Rng:
    """A random number generator seeded by a name."""

    def __init__(self, name: str) -> None:
        digest = hashlib.sha256(f"{SEED}|{name}".encode()).digest()
        self._state = int.from_bytes(digest[:8], "big")

    def _next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def between(self, low: int, high: int) -> int:
        """Return an integer from low to high, inclusive."""
        return low + self._next() % (high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self._next() % len(choices)]

    def chance(self, percent: int) -> bool:
        return self._next() % 100 < percent

    def bell(self, low: int, high: int) -> int:
        """Return an integer from low to high, inclusive, more often near the middle."""
        return (self.between(low, high) + self.between(low, high) + self.between(low, high)) // 3

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        remaining = list(choices)
        return [remaining.pop(self._next() % len(remaining)) for _ in range(len(remaining))]


def stable_id(prefix: str, name: str, *, length: int = 12) -> str:
    """Return an id derived from a name, which stays the same when records are added."""
    return prefix + hashlib.sha256(f"{SEED}|id|{name}".encode()).hexdigest()[:length]
