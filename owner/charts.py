"""Bar charts as data for SVG templates: coordinates, labels and links, without styles or scripts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from owner.text import pluralize

HEIGHT = 100


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars on an axis of `width` units. `text` describes the chart to screen readers.

    `most` is the value of the tallest bar with its unit, `ends` the first and last month in words.
    """

    bars: Sequence[dict[str, Any]]
    width: int
    text: str
    ticks: Sequence[tuple[str, str]]
    most: str
    ends: str

    @property
    def path(self) -> str:
        """All bars as one SVG path."""
        return "".join("M{x} 100v-{height}h8.5v{height}z".format(**bar) for bar in self.bars)

    @property
    def view_box(self) -> str:
        return f"0 0 {self.width} {HEIGHT}"


def months_between(first: date, last: date) -> list[date]:
    """Return the first day of every month from `first` to `last`."""
    count = (last.year - first.year) * 12 + last.month - first.month + 1
    return [add_months(first, number) for number in range(count)]


def add_months(month: date, count: int) -> date:
    """Return the first day of the month that is `count` months away."""
    number = month.year * 12 + month.month - 1 + count
    return date(number // 12, number % 12 + 1, 1)


SLOT = 10


def bar(number: int, height: float, label: str, url: str) -> dict[str, Any]:
    """Return one bar in chart units, in the slot of this number."""
    return {"x": number * SLOT, "y": HEIGHT - height, "height": height, "label": label, "url": url}


def month_chart(
    counts: Mapping[date, int],
    months: Sequence[date],
    *,
    text: str,
    urls: Mapping[date, str] | None = None,
    selected: date | None = None,
) -> Chart:
    """Return a chart with one bar a month; the bar of a month without records is left out.

    The height grows with the square root of the count, so that quiet months stay visible.
    """
    most = max((counts.get(month, 0) for month in months), default=0) or 1
    bars = []
    for number, month in enumerate(months):
        if count := counts.get(month, 0):
            height = max(6.0, round(HEIGHT * (count / most) ** 0.5, 1))
            label, url = f"{month:%B %Y}: {count:,}", (urls or {}).get(month, "")
            bars.append(bar(number, height, label, url) | {"is_selected": month == selected})
    ends = months_text(months[0], months[-1])
    return Chart(
        bars, len(months) * SLOT, text, year_ticks(months), pluralize(most, "record"), ends
    )


def months_text(first: date, last: date) -> str:
    """Return ``December 2025 to November 2026``, or one month."""
    return f"{first:%B %Y}" if first == last else f"{first:%B %Y} to {last:%B %Y}"


def year_ticks(months: Sequence[date]) -> list[tuple[str, str]]:
    """Return position, such as ``12.5%``, and label of at most six years; of months in one year."""
    if len(months) <= 12:
        return [(_percent(n, months), f"{month:%b}") for n, month in enumerate(months)][::2]
    years = [(number, month.year) for number, month in enumerate(months) if month.month == 1]
    # A label at the right end would be cut.
    years = [(number, year) for number, year in years if number < len(months) * 0.9]
    step = -(-len(years) // 6) or 1
    return [(_percent(number, months), str(year)) for number, year in years[::step]]


def _percent(number: int, months: Sequence[date]) -> str:
    return f"{100 * number / len(months):.2f}%"
