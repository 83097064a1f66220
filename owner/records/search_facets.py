"""Facets and months of the matches of a search, each with the URL that narrows to it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from evidence.access.grant_text import stream_label
from evidence.access.record_counts import MonthCount
from evidence.access.records import VisibleRecords
from evidence.read.search import MatchCounts
from owner.charts import Chart, add_months, month_chart, months_between
from owner.records.periods import OTHER_DATES, PERIOD, is_plausible, parse_period

MAX_VALUES = 12
FACETS = ("source", "connection", "kind", "year")
FACET_LABELS = {"source": "Source", "connection": "Connection", "kind": "Kind", "year": "Year"}
YEAR_LABELS = {OTHER_DATES: "Other dates"}


@dataclass(frozen=True, slots=True)
class Filters:
    """The search as the URL has it; empty strings do not restrict."""

    q: str
    source: str
    connection: str
    kind: str
    period: str
    sort: str
    after: str

    @classmethod
    def of(cls, request: HttpRequest) -> "Filters":
        given = {name: request.GET.get(name, "").replace("\0", "") for name in cls.__slots__}
        if given["period"] != OTHER_DATES and not PERIOD.fullmatch(given["period"]):
            given["period"] = ""
        return cls(**given)

    @property
    def year(self) -> str:
        """The year of the period, or ``other``."""
        return self.period if self.period == OTHER_DATES else self.period[:4]

    def url(self, **changes: str) -> str:
        """Return the URL of the search with changes, from its first page."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "after"}
        chosen = {name: value for name, value in {**values, **changes}.items() if value}
        return f"{reverse('search')}?{urlencode(chosen)}"

    @property
    def query(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "after"}


@dataclass(frozen=True, slots=True)
class FacetValue:
    label: str
    count: int
    url: str
    is_selected: bool


@dataclass(frozen=True, slots=True)
class Facet:
    label: str
    values: Sequence[FacetValue]


def kind_key(visible: VisibleRecords) -> str:
    """Return the key of a stream among all sources, as the URL has it."""
    return f"{visible.source.connector_key}/{visible.stream.name}"


Counts = Sequence[tuple[VisibleRecords, MonthCount]]


def _year(visible: VisibleRecords, count: MonthCount) -> str:
    """Return the year of a month, or ``other`` if it is not plausible; empty without one."""
    if count.month is None:
        return ""
    return str(count.month.year) if is_plausible(visible.stream, count.month) else OTHER_DATES


KEYS: Mapping[str, Callable[[VisibleRecords, MonthCount], str]] = {
    "source": lambda visible, count: visible.source.connector_key,
    "connection": lambda visible, count: count.connection_id,
    "kind": lambda visible, count: kind_key(visible),
    "year": _year,
}
LABELS: Mapping[str, Callable[[VisibleRecords, MonthCount], str]] = {
    "source": lambda visible, count: visible.source.display_name,
    "connection": lambda visible, count: visible.connection_for[count.connection_id].display_name,
    "kind": lambda visible, count: stream_label(visible.stream),
    "year": lambda visible, count: YEAR_LABELS.get(year := _year(visible, count), year),
}


def _matching(filters: Filters, counts: Counts, *, without: str) -> Counts:
    """Return the counts that satisfy every filter except one."""
    wanted = {"source": filters.source, "connection": filters.connection, "kind": filters.kind}
    wanted = {name: value for name, value in wanted.items() if value and name != without}
    period = "" if without == "year" else filters.period
    return [
        (visible, count)
        for visible, count in counts
        if all(KEYS[name](visible, count) == value for name, value in wanted.items())
        and (not period or _is_in(period, visible, count))
    ]


def _is_in(period: str, visible: VisibleRecords, count: MonthCount) -> bool:
    if period == OTHER_DATES:
        return _year(visible, count) == OTHER_DATES
    return count.month is not None and f"{count.month:%Y-%m}".startswith(period)


def facets_of(filters: Filters, counts: MatchCounts) -> list[Facet]:
    """Return the facets with more than one value, or with the selected one."""
    facets = []
    for name in FACETS:
        totals: Counter[str] = Counter()
        labels: dict[str, str] = {}
        for visible, count in _matching(filters, counts.months, without=name):
            if key := KEYS[name](visible, count):
                totals[key] += count.records
                labels.setdefault(key, LABELS[name](visible, count))
        selected = filters.year if name == "year" else getattr(filters, name)
        param = "period" if name == "year" else name
        order = [key for key, _ in totals.most_common()]
        if name == "year":
            # The other dates are the last of the twelve.
            order = [*sorted(totals.keys() - YEAR_LABELS, reverse=True)[: MAX_VALUES - 1],
                     *(totals.keys() & YEAR_LABELS)]  # fmt: skip
        values = [
            FacetValue(
                labels[key], _rounded(totals[key]) if counts.is_estimate else totals[key],
                filters.url(**{param: "" if key == selected else key}), key == selected,
            )
            for key in order[:MAX_VALUES]
        ]  # fmt: skip
        if len(values) > 1 or selected:
            facets.append(Facet(FACET_LABELS[name], values))
    return facets


def _rounded(count: int) -> int:
    """Return an estimate with two digits."""
    return round(count, min(0, 2 - len(str(count))))


def histogram_of(filters: Filters, counts: MatchCounts) -> Chart | None:
    """Return the matches by month: of the selected year, or of all years."""
    months: Counter[date] = Counter()
    for visible, count in _matching(filters, counts.months, without="year"):
        if count.month is not None and _year(visible, count) != OTHER_DATES:
            months[count.month] += count.records
    if counts.is_estimate:
        months = Counter({month: _rounded(count) for month, count in months.items()})
    year = filters.year
    if year == OTHER_DATES:
        return None
    if year:
        shown = months_between(date(int(year), 1, 1), date(int(year), 12, 1))
    elif months:
        shown = months_between(max(min(months), add_months(max(months), -119)), max(months))
    else:
        return None
    period = parse_period(filters.period)
    chosen = period.first if period and "-" in filters.period else None
    urls = {
        month: filters.url(period=year if month == chosen else f"{month:%Y-%m}") for month in shown
    }
    text = "Matches by month, estimated" if counts.is_estimate else "Matches by month"
    return month_chart(months, shown, text=text, urls=urls, selected=chosen)
