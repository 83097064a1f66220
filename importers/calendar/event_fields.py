"""Convert the properties of a VEVENT, and its dates and times, to record fields."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, tzinfo
from typing import Any

from icalendar import Event, vDDDTypes
from icalendar.prop.broken import vBroken

from importers.calendar.recurrence import TimeZones, to_aware
from importers.core.results import ParsedItem, ReceiptCode, record_key
from importers.core.text import one_line, replace_unstorable


@dataclass(frozen=True, slots=True)
class EventTimes:
    """The times of an event. ``start`` has a time zone, and is midnight for an all-day event.

    It lasts ``days`` of the calendar, which can have 23 or 25 hours, and the exact ``length``.
    """

    start: datetime
    days: int
    length: timedelta
    is_all_day: bool
    zone_name: str | None

    def starting_at(self, start: datetime, lengths: Mapping[datetime, timedelta]) -> "EventTimes":
        """Return the times of an occurrence, of which some have their own length."""
        if start not in lengths:
            return replace(self, start=start)
        return replace(self, start=start, days=0, length=lengths[start])


def event_data(
    event: Event, calendar: str, times: EventTimes | None, *, key: str, item: ParsedItem
) -> dict[str, Any]:
    description = item.cut_text(str(event.get("DESCRIPTION", "")))
    return {
        "id": key,
        "series_id": series_id(event),
        "calendar": calendar,
        "title": _text(event, "SUMMARY"),
        **time_fields(times),
        "location": _text(event, "LOCATION"),
        "organizer": next(iter(_people(event, "ORGANIZER")), None),
        "attendees": _people(event, "ATTENDEE"),
        "status": (_text(event, "STATUS") or "confirmed").lower(),
        "recurrence": " ".join(recurrence_rules(event)) or None,
        "categories": _categories(event),
        "url": _text(event, "URL"),
        "description": description or None,
    }


def time_fields(times: EventTimes | None) -> dict[str, Any]:
    if times is None:
        names = ("starts_at", "ends_at", "start_day", "end_day", "time_zone")
        return {**dict.fromkeys(names), "is_all_day": False}
    # Add days in local time, which jumps when daylight saving time begins or ends, and hours in UTC.
    days_later = times.start + timedelta(days=times.days)
    end = (days_later.astimezone(UTC) + times.length).astimezone(times.start.tzinfo)
    last_day = max(times.start.date(), (end - timedelta(seconds=1)).date())
    return {
        "starts_at": times.start.isoformat(),
        "ends_at": end.isoformat(),
        "start_day": times.start.date().isoformat(),
        "end_day": last_day.isoformat(),
        "is_all_day": times.is_all_day,
        "time_zone": times.zone_name,
    }


def values(event: Event, name: str) -> list[Any]:
    value = event.get(name, [])
    return value if isinstance(value, list) else [value]


def _text(event: Event, name: str) -> str | None:
    first = next(iter(values(event, name)), None)
    return one_line(str(first)) or None if first is not None else None


def _people(event: Event, name: str) -> list[str]:
    return list(filter(None, map(_person, values(event, name))))


def _person(address: Any) -> str:
    name = replace_unstorable(str(getattr(address, "params", {}).get("CN") or address))
    return one_line(name.removeprefix("mailto:").removeprefix("MAILTO:"))


def _categories(event: Event) -> list[str]:
    return [
        one_line(str(category))
        for categories in values(event, "CATEGORIES")
        for category in getattr(categories, "cats", [])
    ]


def recurrence_rules(event: Event, *, name: str = "RRULE") -> tuple[str, ...]:
    return tuple(map(_to_ical, values(event, name)))


def ical_text(event: Event, name: str) -> str:
    """Return the first value of a property as in the file, or an empty text."""
    return _to_ical(next(iter(values(event, name)), ""))


def _to_ical(value: Any) -> str:
    """Return a property value as in the file, if icalendar kept it."""
    try:
        text = value.to_ical()
    except (AttributeError, ValueError):
        return str(value or "")
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def series_id(event: Event) -> str:
    """Return the record key of an event that has a UID, its own or one made of its content."""
    return record_key("e_", event.get("UID", ""), length=24)


MAX_EVENT_LENGTH = timedelta(days=36_600)


def event_times(event: Event, zones: TimeZones, item: ParsedItem) -> EventTimes | None:
    start = date_property(event, "DTSTART")
    if start is None or not is_convertible(start):
        item.add_issue(ReceiptCode.BAD_DATE, detail=ical_text(event, "DTSTART")[:80])
        return None
    zone, name = _zone(event, start, zones, item)
    days, length = _length(event, start, zone, zones)
    if not timedelta() <= timedelta(days) + length <= MAX_EVENT_LENGTH:
        raw = ical_text(event, "DTEND") or ical_text(event, "DURATION")
        item.add_issue(ReceiptCode.BAD_DATE, detail=raw[:80])
        days, length = 0, timedelta()
    is_all_day = not isinstance(start, datetime)
    return EventTimes(to_aware(start, zone=zone), days, length, is_all_day, name)


def _length(event: Event, start: date, zone: tzinfo, zones: TimeZones) -> tuple[int, timedelta]:
    """Return the length in days of the calendar, and the exact rest (RFC 5545, 3.3.6)."""
    end = date_property(event, "DTEND")
    if end is not None and is_convertible(end):
        if not isinstance(start, datetime) and not isinstance(end, datetime):
            return (end - start).days, timedelta()
        end_zone = zones.get(str(event["DTEND"].params.get("TZID") or "")) or zone
        exact_start = to_aware(start, zone=zone).astimezone(UTC)
        return 0, to_aware(end, zone=end_zone).astimezone(UTC) - exact_start
    duration = event.get("DURATION")
    length = duration.dt if isinstance(duration, vDDDTypes) else None
    if isinstance(length, timedelta):
        days = length.days if re.match(r"\+?P\d+[DW]", _to_ical(duration)) else 0
        return days, length - timedelta(days)
    return (0 if isinstance(start, datetime) else 1), timedelta()


def is_convertible(day: date) -> bool:
    """Return whether the date stays in the range of datetime in every time zone."""
    return MINYEAR < day.year < MAXYEAR


def _zone(
    event: Event, start: date, zones: TimeZones, item: ParsedItem
) -> tuple[tzinfo, str | None]:
    name = event["DTSTART"].params.get("TZID")
    if name:
        zone = zones.get(str(name))
        if zone is None:
            item.add_issue(ReceiptCode.UNKNOWN_TIME_ZONE, detail=str(name)[:80])
        return zone or zones.floating, one_line(str(name), max_chars=100)
    if isinstance(start, datetime) and start.tzinfo is not None:
        return UTC, "UTC"
    return zones.floating, None


def date_property(event: Event, name: str) -> date | None:
    """Return a date or time, without the zone from icalendar: TimeZones knows more zones."""
    value = event.get(name)
    day = None if isinstance(value, vBroken) else getattr(value, "dt", None)
    if isinstance(day, datetime) and event[name].params.get("TZID"):
        return day.replace(tzinfo=None)
    return day if isinstance(day, date) else None
