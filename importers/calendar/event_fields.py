"""What an event says, as fields of its record."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from icalendar import Event

from importers.core.results import Code, Item
from importers.core.text import cut, one_line, storable


@dataclass(frozen=True, slots=True)
class When:
    """``start`` is aware, midnight for a whole day."""

    start: datetime
    length: timedelta
    is_all_day: bool
    zone_name: str | None


def data_of(
    event: Event, calendar: str, when: When | None, *, key: str, item: Item
) -> dict[str, Any]:
    description, lost = cut(str(event.get("DESCRIPTION", "")))
    if lost:
        item.remark(Code.TEXT_CUT)
    return {
        "id": key,
        "series_id": series_of(event),
        "calendar": calendar,
        "title": _text(event, "SUMMARY"),
        **times_of(when),
        "location": _text(event, "LOCATION"),
        "organizer": next(iter(_people(event, "ORGANIZER")), None),
        "attendees": _people(event, "ATTENDEE"),
        "status": (_text(event, "STATUS") or "confirmed").lower(),
        "recurrence": " ".join(rules_of(event)) or None,
        "categories": _categories(event),
        "url": _text(event, "URL"),
        "description": description or None,
    }


def times_of(when: When | None) -> dict[str, Any]:
    if when is None:
        names = ("starts_at", "ends_at", "start_day", "end_day", "time_zone")
        return {**dict.fromkeys(names), "is_all_day": False}
    # The wall clock goes on through a change of the clocks; a length does not.
    end = (when.start.astimezone(UTC) + when.length).astimezone(when.start.tzinfo)
    last_day = max(when.start.date(), (end - timedelta(seconds=1)).date())
    return {
        "starts_at": when.start.isoformat(),
        "ends_at": end.isoformat(),
        "start_day": when.start.date().isoformat(),
        "end_day": last_day.isoformat(),
        "is_all_day": when.is_all_day,
        "time_zone": when.zone_name,
    }


def _text(event: Event, name: str) -> str | None:
    found = event.get(name)
    first = found[0] if isinstance(found, list) and found else found
    return one_line(storable(str(first))) or None if first is not None else None


def _people(event: Event, name: str) -> list[str]:
    found = event.get(name, [])
    return [
        person
        for each_one in (found if isinstance(found, list) else [found])
        if (person := _person(each_one))
    ]


def _person(address: Any) -> str:
    named = getattr(address, "params", {}).get("CN")
    return one_line(storable(str(named or address)).removeprefix("mailto:").removeprefix("MAILTO:"))


def _categories(event: Event) -> list[str]:
    found = event.get("CATEGORIES", [])
    return [
        one_line(storable(str(category)))
        for categories in (found if isinstance(found, list) else [found])
        for category in getattr(categories, "cats", [])
    ]


def rules_of(event: Event) -> tuple[str, ...]:
    found = event.get("RRULE", [])
    rules = found if isinstance(found, list) else [found]
    return tuple(_ical(rule) for rule in rules)


def _ical(rule: Any) -> str:
    written = rule.to_ical()
    return written.decode("utf-8", "replace") if isinstance(written, bytes) else str(written)


def series_of(event: Event) -> str:
    uid = str(event.get("UID", "")) or event.to_ical().decode("utf-8", "replace")
    return f"e_{sha256(uid.encode('utf-8', 'replace')).hexdigest()[:24]}"
