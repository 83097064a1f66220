"""One month of events as a grid of weeks and as an agenda."""

import calendar
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from evidence.access.records import VisibleRecords
from owner.charts import add_months
from owner.preferences import first_weekday
from owner.records.periods import month_links, one_month, today
from owner.records.record_summaries import RecordSummary
from owner.site import owner

MAX_EVENTS = 250
SHOWN_PER_DAY = 3
MAX_DAYS = 62
"""An event that lasts longer is shown on this many days."""


@dataclass(frozen=True, slots=True)
class GridDay:
    """One cell of the grid. `more` counts the events that the cell has no room for."""

    day: date
    in_month: bool
    is_today: bool
    events: Sequence[RecordSummary]

    @property
    def first_events(self) -> Sequence[RecordSummary]:
        return self.events[:SHOWN_PER_DAY]

    @property
    def more(self) -> int:
        return max(0, len(self.events) - SHOWN_PER_DAY)


def calendar_month(
    visible: VisibleRecords, month: date, *, url: Callable[..., str]
) -> tuple[dict[str, Any], list[RecordSummary]]:
    """Return the template variables of a month, and the events that begin in it."""
    events, has_more = one_month(month).first_records(visible, limit=MAX_EVENTS)
    by_day: dict[date, list[RecordSummary]] = defaultdict(list)
    for event in events:
        for day in _days(event):
            by_day[day].append(event)
    weeks_of = calendar.Calendar(first_weekday(owner().language))
    weeks = [
        [
            GridDay(day, day.month == month.month, day == today(), by_day.get(day, ()))
            for day in week
        ]
        for week in weeks_of.monthdatescalendar(month.year, month.month)
    ]
    agenda = sorted((day, rows) for day, rows in by_day.items() if day.month == month.month)
    context = {
        "weeks": weeks,
        "agenda": agenda,
        "shown": len(events),
        "left_out": _days_from(events[-1].day or month, month) if has_more and events else [],
        **month_links(month, url=url),
    }
    return context, events


def _days_from(day: date, month: date) -> list[date]:
    """Return the days of the month from this one on."""
    count = (add_months(month, 1) - day).days
    return [day + timedelta(days=number) for number in range(count)]


def _days(event: RecordSummary) -> list[date]:
    """Return the days of an event. A day that it only touches at midnight does not count."""
    start = event.at
    if start is None:
        return []
    end: datetime = event.end or start
    last = max(start, end - timedelta(microseconds=1)).date()
    count = min((last - start.date()).days + 1, MAX_DAYS)
    return [start.date() + timedelta(days=number) for number in range(count)]
