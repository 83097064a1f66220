"""Work limits: how much analysis of text one answer may cost.

A stranger can write any text, and a client can search it as often as it likes. Work is counted in
units of about one microsecond, from the text alone and never from a clock or a cache, so the same
request over the same visible text always stops at the same place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

ONE_TEXT = 1_000_000
"""Units for one text. Prose of three million characters stays below."""


class WorkLimit:
    """The units that are left. Not thread-safe: each answer has its own."""

    __slots__ = ("left",)

    def __init__(self, units: int = ONE_TEXT) -> None:
        self.left = units

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left, so that the last analysis may be incomplete."""
        return self.left <= 0

    def spend(self, units: int) -> None:
        """Count work that was done."""
        self.left -= units

    @contextmanager
    def share(self, *, most: int, least: int = 0) -> Iterator[WorkLimit]:
        """A limit for one text among many: at most `most` units of what is left, at least `least`.

        So one hostile text cannot use up what the others need.
        """
        part = WorkLimit(max(least, min(most, self.left)))
        granted = part.left
        try:
            yield part
        finally:
            self.left -= granted - part.left
