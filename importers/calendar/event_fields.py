"""Convert the properties of a VEVENT, and its dates and times, to record fields."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, tzinfo
from itertools import chain
from typing import Any

from icalendar import Event, vBinary, vDDDTypes, vUnknown
from icalendar.prop.broken import vBroken

from importers.calendar.recurrence import TimeZones, to_aware
from importers.core.results import ParsedItem, ReceiptCode, record_key
from importers.core.text import html_to_text, one_line, replace_unstorable

_TEXTS = ("DESCRIPTION", "COMMENT", "CONTACT", "RESOURCES")
_ESCAPED = re.compile(r"\\(.)")
_TITLES = ("SUMMARY", "LOCATION", "URL")
_LINKS = ("ATTACH", "CONFERENCE", "X-GOOGLE-CONFERENCE")


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
    return {
        "id": key,
        "series_id": series_id(event),
        "calendar": calendar,
        "title": _text(event, "SUMMARY", item),
        **time_fields(times),
        "location": _text(event, "LOCATION", item),
        "organizer": next(iter(_people(event, "ORGANIZER")), None),
        "attendees": _people(event, "ATTENDEE"),
        "status": (_text(event, "STATUS", item) or "confirmed").lower(),
        "recurrence": " ".join(recurrence_rules(event)) or None,
        "categories": _categories(event),
        "url": _text(event, "URL", item),
        "description": item.cut_text(_description(event, item)) or None,
    }


def _description(event: Event, item: ParsedItem) -> str:
    """Return all texts for people, and the addresses of files and calls. A file itself has a receipt."""
    texts = [str(text).strip() for name in _TEXTS for text in values(event, name)]
    texts += (one_line(str(text)) for name in _TITLES for text in values(event, name)[1:])
    if "DESCRIPTION" not in event:  # Outlook may write it as HTML only
        texts[:0] = [html_to_text(_unescaped(each)) for each in values(event, "X-ALT-DESC")]
    links = []
    for link in chain.from_iterable(values(event, name) for name in _LINKS):
        params = getattr(link, "params", {})
        name = one_line(str(params.get("FILENAME") or params.get("LABEL") or ""), max_chars=255)
        if isinstance(link, vBinary) or not link:  # the reader leaves out their content
            item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail=f"attached file {name}".strip())
        elif not any(_unescaped(link) in text for text in texts):
            links.append(f"{name}: {_unescaped(link)}" if name else _unescaped(link))
    texts.append("\n".join(dict.fromkeys(links)))
    return replace_unstorable("\n\n".join(filter(None, dict.fromkeys(texts))))


def _unescaped(value: Any) -> str:
    """Return the text of a property whose type icalendar does not know."""
    text = str(value)
    return _ESCAPED.sub(_unescape, text).strip() if isinstance(value, vUnknown) else text


def _unescape(escaped: re.Match[str]) -> str:
    return "\n" if escaped[1] in "nN" else escaped[1]


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


def _text(event: Event, name: str, item: ParsedItem) -> str | None:
    """Return the first value; the description has others."""
    return item.cut_line(next(map(str, values(event, name)), "")) or None


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
    return tuple(map(to_ical, values(event, name)))


def ical_text(event: Event, name: str) -> str:
    """Return the first value of a property as in the file, or an empty text."""
    return to_ical(next(iter(values(event, name)), ""))


def to_ical(value: Any) -> str:
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
    ends = {"DTEND": date_property(event, "DTEND"), "DURATION": _duration(event)}
    for written in (each for each, value in ends.items() if each in event and value is None):
        item.add_issue(ReceiptCode.BAD_DATE, detail=f"{written} {ical_text(event, written)}"[:80])
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
    if (length := _duration(event)) is not None:
        is_in_days = re.match(r"\+?P\d+[DW]", ical_text(event, "DURATION"))
        days = length.days if is_in_days else 0
        return days, length - timedelta(days)
    return (0 if isinstance(start, datetime) else 1), timedelta()


def _duration(event: Event) -> timedelta | None:
    duration = event.get("DURATION")
    length = duration.dt if isinstance(duration, vDDDTypes) else None
    return length if isinstance(length, timedelta) else None


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
    """Return a date or time, without the zone from icalendar: TimeZones knows more zones.

    Of a day with a zone or midnight, icalendar makes a time.
    """
    value = event.get(name)
    day = None if isinstance(value, vBroken) else getattr(value, "dt", None)
    if not isinstance(day, datetime):
        return day if isinstance(day, date) else None
    params = event[name].params
    if params.get("VALUE", "").upper() == "DATE" and day.time() == datetime.min.time():
        return day.date()
    return day.replace(tzinfo=None) if params.get("TZID") else day
