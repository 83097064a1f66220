"""Days, months and years in the owner's time zone, as time ranges of streams, and the records in each month.

The number of records by month is cached for each connection until it changes. A calendar shows one month.
"""

import calendar
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

import orjson
from django.core.cache import cache
from django.db.models.expressions import RawSQL
from django.utils import timezone

from evidence.access.record_counts import (
    MonthCount,
    count_by_month,
    not_after,
    time_bounds,
    within,
)
from evidence.access.records import VisibleRecords
from evidence.access.scope import ConnectionFacts, GrantedStream, TimeRange
from evidence.declarations.declaration import StreamDeclaration
from evidence.models.connections import Connection
from owner.charts import add_months
from owner.preferences import first_weekday
from owner.records.record_roles import ALL_DAY_FIELDS, Layout, StreamRoles
from owner.records.record_summaries import RecordSummary, summarize
from owner.site import owner

OTHER_DATES = "other"
"""The period of records whose date is not plausible, as URLs have it."""
PERIOD = re.compile(r"(?P<year>[12]\d{3})(-(?P<month>0[1-9]|1[0-2]))?")
MAX_OFFSET = timedelta(hours=14)
"""No time zone is further away from UTC."""
MAX_EVENTS_OF_A_DAY = 20


@dataclass(frozen=True, slots=True)
class Period:
    """The days from `first` up to, but excluding, `until`."""

    first: date
    until: date

    @property
    def last(self) -> date:
        return self.until - timedelta(days=1)

    def time_range(self, stream: StreamDeclaration) -> TimeRange:
        return TimeRange(*self.bounds(stream))

    def bounds(self, stream: StreamDeclaration) -> tuple[datetime, datetime]:
        """Return the ends in the owner's time zone. Dates without a time of day are in UTC."""
        zone = UTC if stream.has_dates_only else timezone.get_current_timezone()
        return _midnight(self.first, zone), _midnight(self.until, zone)

    def of(self, visible: VisibleRecords) -> VisibleRecords:
        """Return the records of the period."""
        return within(visible, self.time_range(visible.stream))

    def before(self, day: date) -> "Period":
        return replace(self, until=min(self.until, day))

    def after(self, day: date) -> "Period":
        return replace(self, first=max(self.first, day + timedelta(days=1)))

    def edges(self, visible: VisibleRecords) -> list[date]:
        """Return the first and last day with records of a plausible date, if any. One or two queries."""
        plausible = plausible_period(visible.stream)
        period = Period(max(self.first, plausible.first), min(self.until, plausible.until))
        if period.first >= period.until:
            return []
        if visible.stream.fields.keys() & set(ALL_DAY_FIELDS):
            ends = [
                period.first_records(visible, limit=MAX_EVENTS_OF_A_DAY, descending=is_last)[0]
                for is_last in (False, True)
            ]
            return [each.day for records in ends for each in records if each.day]
        zone = UTC if visible.stream.has_dates_only else timezone.get_current_timezone()
        bounds = time_bounds(period.of(visible))
        return [moment.astimezone(zone).date() for moment in bounds if moment]

    def first_records(
        self, visible: VisibleRecords, *, limit: int, descending: bool = False
    ) -> tuple[list[RecordSummary], bool]:
        """Return records of the period in order, and whether there are more. One query."""
        time = self.time_range(visible.stream)
        is_floating = any(name in visible.stream.fields for name in ALL_DAY_FIELDS)
        if is_floating and time.since and time.until:
            # All-day events are stored at midnight UTC and mean that day in every time zone.
            time = TimeRange(time.since - MAX_OFFSET, time.until + MAX_OFFSET)
        records = within(visible, time)
        found = records.page(limit=limit + 1, descending=descending)
        shown = summarize(visible, found[:limit])
        if is_floating:
            shown = [each for each in shown if each.day and self.first <= each.day < self.until]
        return shown, len(found) > limit


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)


def one_day(day: date) -> Period:
    return Period(day, day + timedelta(days=1))


def parse_period(text: str) -> Period | None:
    """Return a year, ``2026``, or a month, ``2026-03``; None for any other text."""
    match = PERIOD.fullmatch(text)
    if match is None:
        return None
    first = date(int(match["year"]), int(match["month"] or 1), 1)
    return Period(first, add_months(first, 1 if match["month"] else 12))


def plausible_period(stream: StreamDeclaration) -> Period:
    """Return the days of records whose date is no fault of their source.

    They are from 1970 until tomorrow; in a calendar, from 1900 until ten years from now.
    """
    if StreamRoles(stream).layout == Layout.CALENDAR:
        return Period(date(1900, 1, 1), date(today().year + 11, 1, 1))
    return Period(date(1970, 1, 1), today() + timedelta(days=2))


def is_plausible(stream: StreamDeclaration, day: date) -> bool:
    if date(1970, 1, 1) <= day <= today():
        return True
    period = plausible_period(stream)
    return period.first <= day < period.until


def until_plausible(visible: VisibleRecords) -> VisibleRecords:
    """Return the records that a list with the newest first begins with: none of a later date."""
    _, until = plausible_period(visible.stream).bounds(visible.stream)
    return not_after(visible, until)


def with_other_dates(visible: VisibleRecords) -> VisibleRecords:
    """Return the records whose date is not plausible."""
    since, until = plausible_period(visible.stream).bounds(visible.stream)
    return within(visible, TimeRange(None, since), TimeRange(until, None))


def one_month(month: date) -> Period:
    """Return the month that begins with this day."""
    return Period(month, add_months(month, 1))


def today() -> date:
    return timezone.localdate()


def zone_name() -> str:
    """Return the IANA name of the owner's time zone."""
    return str(timezone.get_current_timezone())


def month_links(month: date, *, url: Callable[..., str]) -> dict[str, Any]:
    """Return the month with the URLs of its neighbors and of this month."""
    previous, following = add_months(month, -1), add_months(month, 1)
    return {
        "month": month,
        "previous": (previous, url(month=f"{previous:%Y-%m}")),
        "following": (following, url(month=f"{following:%Y-%m}")),
        "this_month_url": url(month=f"{today():%Y-%m}"),
    }


CACHE_SECONDS = 3_600


def cached_month_counts(streams: Sequence[VisibleRecords]) -> list[MonthCount]:
    """Return the counts of streams of the owner's unrestricted scope. One or two queries."""
    ids = {facts.connection_id for each in streams for facts in each.connections}
    # The row version (xmin) distinguishes databases that gave one change number to different changes.
    rows = Connection.unscoped.filter(pk__in=ids).values_list(
        "pk", "change_seq", RawSQL("xmin::text", ())
    )
    change_numbers = {pk: numbers for pk, *numbers in rows}
    keys = {
        (number, facts.connection_id): _key(each, facts, change_numbers)
        for number, each in enumerate(streams)
        for facts in each.connections
    }
    known: dict[str, list[tuple[Any, ...]]] = cache.get_many(keys.values())
    added: dict[tuple[int, str], list[tuple[Any, ...]]]
    if added := {place: [] for place, key in keys.items() if key not in known}:
        changed = [_through(each, number, added) for number, each in enumerate(streams)]
        for count in count_by_month(changed, time_zone=zone_name()):
            row = (count.month, count.records, count.first, count.last)
            added[count.number, count.connection_id].append(row)
        counted = {keys[place]: found for place, found in added.items()}
        cache.set_many(counted, CACHE_SECONDS)
        known |= counted
    return [MonthCount(*place, *row) for place, key in keys.items() for row in known[key]]


def _through(
    visible: VisibleRecords, number: int, places: Collection[tuple[int, str]]
) -> VisibleRecords:
    """Return the stream at this position through the connections of the places."""
    granted = (
        GrantedStream(
            each.grant_id,
            each.terms,
            tuple(facts for facts in each.connections if (number, facts.connection_id) in places),
        )
        for each in visible.granted
    )
    return visible.restricted_to(*(each for each in granted if each.connections))


def has_other_dates(visible: VisibleRecords) -> bool:
    """Return whether records of the owner's unrestricted stream have dates that are not plausible."""
    since, until = plausible_period(visible.stream).bounds(visible.stream)
    return any(
        count.first < since or count.last >= until
        for count in cached_month_counts([visible])
        if count.first and count.last
    )


def _key(
    visible: VisibleRecords, facts: ConnectionFacts, change_numbers: Mapping[str, list[object]]
) -> str:
    version = [
        zone_name(),
        visible.source.declaration_pk,
        visible.stream.name,
        facts.connection_id,
        change_numbers.get(facts.connection_id),
    ]
    return f"months-{hashlib.sha256(orjson.dumps(version)).hexdigest()}"


MAX_EVENTS = 250
SHOWN_PER_DAY = 3
MAX_DAYS = 62
"""An event that lasts longer is shown on this many days."""


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
            {
                "day": day,
                "in_month": day.month == month.month,
                "is_today": day == today(),
                "events": (found := by_day.get(day, [])),
                "first_events": found[:SHOWN_PER_DAY],
                "more": max(0, len(found) - SHOWN_PER_DAY),
            }
            for day in week
        ]
        for week in weeks_of.monthdatescalendar(month.year, month.month)
    ]
    agenda = sorted((day, rows) for day, rows in by_day.items() if day.month == month.month)
    left_out = []
    if has_more and events:
        last = events[-1].day or month
        left_out = [last + timedelta(days=n) for n in range((add_months(month, 1) - last).days)]
    context = {
        "weeks": weeks,
        "agenda": agenda,
        "shown": len(events),
        "left_out": left_out,
        **month_links(month, url=url),
    }
    return context, events


def _days(event: RecordSummary) -> list[date]:
    """Return the days of an event. A day that it only touches at midnight does not count."""
    start = event.at
    if start is None:
        return []
    end: datetime = event.end or start
    last = max(start, end - timedelta(microseconds=1)).date()
    count = min((last - start.date()).days + 1, MAX_DAYS)
    return [start.date() + timedelta(days=number) for number in range(count)]
