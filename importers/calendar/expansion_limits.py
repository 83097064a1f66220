"""Limit the expansion of recurring events per series, per file and per run.

A calendar file can come from a stranger, and a rule of twenty characters can describe any number
of occurrences. The limits bound the records, the bytes and the computing time that a file causes.
"""

from dataclasses import dataclass

SERIES_MAX_OCCURRENCES = 5_000
SERIES_MAX_BYTES = 4 * 1024 * 1024
"""Total size of the occurrences of one series as JSON."""
SERIES_MAX_STEPS = 200_000


@dataclass(slots=True)
class ExpansionLimits:
    """What expansion may still add to a file, or to a run if ``run`` is None.

    ``size`` is in bytes. A step is one occurrence, or one period that the expansion of a rule
    searches.
    """

    occurrences: int
    size: int
    steps: int
    run: "ExpansionLimits | None" = None

    def subtract(self, *, occurrences: int = 0, size: int = 0, steps: int = 0) -> None:
        """Subtract the cost of a series from these limits and those of the run."""
        self.occurrences = max(0, self.occurrences - occurrences)
        self.size = max(0, self.size - size)
        self.steps = max(0, self.steps - steps)
        if self.run is not None:
            self.run.subtract(occurrences=occurrences, size=size, steps=steps)

    def per_series(self) -> "ExpansionLimits":
        """Return the limits of the next series."""
        run = self.run or self
        return ExpansionLimits(
            occurrences=min(SERIES_MAX_OCCURRENCES, self.occurrences, run.occurrences),
            size=min(SERIES_MAX_BYTES, self.size, run.size),
            steps=min(SERIES_MAX_STEPS, self.steps, run.steps),
        )


def limits_per_run() -> ExpansionLimits:
    """Return the limits of one run."""
    return ExpansionLimits(occurrences=200_000, size=128 * 1024 * 1024, steps=8_000_000)


def limits_per_file(run: ExpansionLimits) -> ExpansionLimits:
    """Return the limits of one file of a run."""
    return ExpansionLimits(occurrences=50_000, size=32 * 1024 * 1024, steps=2_000_000, run=run)
