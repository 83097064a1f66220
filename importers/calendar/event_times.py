"""Read the dates and times of a VEVENT."""

import re
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, tzinfo
from typing import Any

from icalendar import Event, vDDDTypes
from icalendar.prop.broken import vBroken

from importers.calendar.event_fields import EventTimes
from importers.calendar.recurrence import TimeZones, to_aware
from importers.core.results import ParsedItem, ReceiptCode
from importers.core.text import one_line

MAX_EVENT_LENGTH = timedelta(days=36_600)


def event_times(event: Event, zones: TimeZones, item: ParsedItem) -> EventTimes | None:
    start = date_property(event, "DTSTART")
    if start is None or not is_convertible(start):
        item.add_issue(ReceiptCode.BAD_DATE, detail=_raw_text(event.get("DTSTART"))[:80])
        return None
    zone, name = _zone(event, start, zones, item)
    days, length = _length(event, start, zone, zones)
    if not timedelta() <= timedelta(days) + length <= MAX_EVENT_LENGTH:
        raw = _raw_text(event.get("DTEND") or event.get("DURATION"))
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
        days = length.days if re.match(r"\+?P\d+[DW]", _raw_text(duration)) else 0
        return days, length - timedelta(days)
    return (0 if isinstance(start, datetime) else 1), timedelta()


def _raw_text(value: Any) -> str:
    """Return a property value as in the file, if icalendar kept it."""
    try:
        text = value.to_ical()
    except (AttributeError, ValueError):
        return str(value or "")
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


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
