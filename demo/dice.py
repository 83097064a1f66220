"""Repeatable choices: the same name gives the same choices on every machine and Python version.

`random` promises this only for `random()`, so the demo life throws its own dice: splitmix64, in
integers only. Each dice is seeded by a name, so that growing one part of the life moves no other.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")
SEED = "pdpp demo life 1"
_MASK = (1 << 64) - 1


class Dice:
    """A stream of choices that belongs to one name."""

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
        """An integer from low to high, both included."""
        return low + self._next() % (high - low + 1)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self._next() % len(choices)]

    def chance(self, percent: int) -> bool:
        return self._next() % 100 < percent

    def bell(self, low: int, high: int) -> int:
        """An integer from low to high that is more often near the middle."""
        return (self.between(low, high) + self.between(low, high) + self.between(low, high)) // 3

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        rest = list(choices)
        return [rest.pop(self._next() % len(rest)) for _ in range(len(rest))]


def opaque(prefix: str, name: str, *, length: int = 12) -> str:
    """An id that says nothing about its record, yet stays the same when the life grows."""
    return prefix + hashlib.sha256(f"{SEED}|id|{name}".encode()).hexdigest()[:length]
