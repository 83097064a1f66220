"""Limits on the text analysis that one response may cost.

Anyone can write a text, and a client can search it repeatedly. Work is counted in units of about
one microsecond, from the text alone and never from a clock or a cache, so the same request over
the same visible text always stops at the same place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

UNITS_PER_TEXT = 1_000_000
"""Default limit for one text. Prose of three million characters needs less."""


class WorkLimit:
    """A budget of work units. Not thread-safe: each response has its own."""

    __slots__ = ("left",)

    def __init__(self, units: int = UNITS_PER_TEXT) -> None:
        self.left = units

    @property
    def exhausted(self) -> bool:
        """Whether no units are left, so that the last analysis may be incomplete."""
        return self.left <= 0

    def spend(self, units: int) -> None:
        """Subtract the units of completed work."""
        self.left -= units

    @contextmanager
    def share(self, *, max_units: int, min_units: int = 0) -> Iterator[WorkLimit]:
        """Give one text a budget between `min_units` and `max_units`, and subtract what it used.

        One expensive text then cannot use up the budget of the others.
        """
        part = WorkLimit(max(min_units, min(max_units, self.left)))
        granted = part.left
        try:
            yield part
        finally:
            self.left -= granted - part.left
