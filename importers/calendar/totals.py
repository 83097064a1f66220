"""Limits of recurrence expansion: per series, per file and per run.

A calendar file can come from a stranger, and a rule of twenty characters can describe any number
of occurrences. The limits bound the records, the bytes and the computing time that a file causes.
"""

from dataclasses import dataclass

SERIES_OCCURRENCES = 5_000
SERIES_BYTES = 4 * 1024 * 1024
"""JSON bytes of the occurrences of one series."""
SERIES_STEPS = 200_000


@dataclass(slots=True)
class Totals:
    """What recurrence expansion may still add to a file, or to a run if `run` is None.

    A step is one occurrence or one period of a rule that the expansion computes.
    """

    occurrences: int
    size: int
    steps: int
    run: "Totals | None" = None

    def spend(self, *, occurrences: int = 0, size: int = 0, steps: int = 0) -> None:
        """Subtract what a series took, here and from the run."""
        self.occurrences = max(0, self.occurrences - occurrences)
        self.size = max(0, self.size - size)
        self.steps = max(0, self.steps - steps)
        if self.run is not None:
            self.run.spend(occurrences=occurrences, size=size, steps=steps)

    def of_series(self) -> "Totals":
        """Return the limits of the next series."""
        left = self.run or self
        return Totals(
            occurrences=min(SERIES_OCCURRENCES, self.occurrences, left.occurrences),
            size=min(SERIES_BYTES, self.size, left.size),
            steps=min(SERIES_STEPS, self.steps, left.steps),
        )


def totals_of_run() -> Totals:
    """Return the limits of one import."""
    return Totals(occurrences=200_000, size=128 * 1024 * 1024, steps=8_000_000)


def totals_of_file(run: Totals) -> Totals:
    """Return the limits of one file within a run."""
    return Totals(occurrences=50_000, size=32 * 1024 * 1024, steps=2_000_000, run=run)
