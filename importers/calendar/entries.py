"""Parse the entries of one event, and select the newest version of each."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from icalendar import Event, vText

from importers.calendar.event_fields import ical_text
from importers.calendar.expansion_limits import SERIES_MAX_OCCURRENCES, ExpansionLimits
from importers.calendar.recurrence import TimeZones, Window
from importers.core.results import ParsedItem, ReceiptCode
from importers.core.streaming import (
    Component,
    close_component,
    decode_quoted_printable,
    property_value,
    unfold,
)
from importers.core.text import replace_unstorable

StoredSeries = Callable[[], Mapping[str, Sequence[datetime]]]


@dataclass(frozen=True, slots=True)
class Calendar:
    """What all events of a calendar share. ``stored`` returns first starts of stored series.

    ``method`` is that of an invitation, such as CANCEL, or empty.
    """

    name: str
    zones: TimeZones
    window: Window
    limits: ExpansionLimits
    stored: StoredSeries = dict
    method: str = ""


_OTHER_ENTRIES = {"VTODO": "task", "VJOURNAL": "journal entry"}
_CHANGING = re.compile(
    rb"^(?:(?:DTSTAMP|CREATED|LAST-MODIFIED|SEQUENCE|STATUS|TRANSP|CLASS|PRIORITY|COMMENT|X-[\w-]+)[;:]"
    rb"[^\n]*|BEGIN:VALARM.*?^END:VALARM[^\n]*)\n?",
    re.MULTILINE | re.IGNORECASE | re.DOTALL,
)
"""What differs between the versions of one event, such as its cancellation."""


class Entry(NamedTuple):
    """A VEVENT, VTODO or VJOURNAL with the calendar that contains it."""

    component: Component
    calendar: Calendar


class ParsedEntry(NamedTuple):
    """A parsed event with the calendar that contains it."""

    event: Event
    calendar: Calendar


def entry_uid(entry: Entry) -> str | None:
    """Return the UID, or one made of the content if the entry has none, or None without a text."""
    text = entry.component.text
    if text is None:
        return None
    if uid := property_value(text, "UID"):
        return uid
    stable = _CHANGING.sub(b"", unfold(text).replace(b"\r\n", b"\n")).strip()
    return f"\0{sha256(stable).hexdigest()}"


def parse_entries(entries: Sequence[Entry], item: ParsedItem) -> list[ParsedEntry]:
    """Return the newest version of the event itself and of each exception."""
    if len(entries) > SERIES_MAX_OCCURRENCES:
        item.add_issue(ReceiptCode.TOO_MANY_OCCURRENCES)
        entries = _closest_entries(entries)
    parsed = (_parse_entry(entry, item) for entry in entries)
    return _newest_versions(filter(None, parsed), item)


def _closest_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of the series itself and the exceptions closest to today."""
    today = f"{entries[0].calendar.window.today:%Y%m%d}"

    def distance(entry: Entry) -> int:
        replaced = property_value(entry.component.text or b"", "RECURRENCE-ID")
        digits = (replaced or today)[:8]
        return abs(int(digits) - int(today)) if digits.isdecimal() else 10**9

    return sorted(entries, key=distance)[:SERIES_MAX_OCCURRENCES]


def _parse_entry(entry: Entry, item: ParsedItem) -> ParsedEntry | None:
    if entry.component.text is None:
        item.add_issue(ReceiptCode.TOO_LARGE)
        return None
    if entry.component.name != "VEVENT":
        item.add_issue(ReceiptCode.NOT_SUPPORTED, detail=_OTHER_ENTRIES[entry.component.name])
        return None
    is_cancelled = entry.calendar.method == "CANCEL"
    try:
        content = decode_quoted_printable(entry.component.text)
        event = _parse_event(content, is_cancelled=is_cancelled)
        event["UID"] = event.get("UID") or vText(entry_uid(entry) or "")
    except (ValueError, IndexError, KeyError, TypeError) as error:
        item.add_issue(ReceiptCode.MALFORMED, detail=str(error)[:100])
        return None
    return ParsedEntry(event, entry.calendar)


def _parse_event(content: bytes, *, is_cancelled: bool) -> Event:
    text = replace_unstorable(unfold(content).decode("utf-8", "replace"))
    event = Event.from_ical(close_component(text, "VEVENT"))
    if not isinstance(event, Event):
        raise TypeError(type(event).__name__)
    if is_cancelled:
        event["STATUS"] = vText("CANCELLED")
    return event


def _newest_versions(entries: Iterable[ParsedEntry], item: ParsedItem) -> list[ParsedEntry]:
    """Return the newest version of the series and of each exception."""
    newest: dict[str, ParsedEntry] = {}
    for entry in entries:
        replaced = ical_text(entry.event, "RECURRENCE-ID")
        current = newest.setdefault(replaced, entry)
        if current is entry:
            continue
        if _content(current.event) != _content(entry.event):
            item.add_issue(ReceiptCode.OLDER_VERSION, detail=replaced[:80])
        if _version(entry) > _version(current):
            newest[replaced] = entry
    return list(newest.values())


def _version(entry: ParsedEntry) -> tuple[bool, int, str, bool]:
    """Return what orders versions. The answer of a guest repeats only a part of the event."""
    event = entry.event
    sequence = ical_text(event, "SEQUENCE")
    stamp = ical_text(event, "LAST-MODIFIED") or ical_text(event, "DTSTAMP")
    is_answer = entry.calendar.method in ("REPLY", "COUNTER", "REFRESH")
    is_cancelled = ical_text(event, "STATUS").upper() == "CANCELLED"
    return not is_answer, int(sequence) if sequence.isdecimal() else 0, stamp, is_cancelled


def _content(event: Event) -> tuple[str, ...]:
    names = ("DTSTART", "DTEND", "RRULE", "SUMMARY", "LOCATION", "STATUS", "SEQUENCE")
    return tuple(ical_text(event, name) for name in names)
