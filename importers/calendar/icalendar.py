"""Import iCalendar files: one record for each event and each occurrence of a recurring event."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, tzinfo
from functools import partial
from itertools import chain, repeat
from typing import Any

import orjson
from icalendar import Event, vDDDTypes
from icalendar.prop.broken import vBroken

from evidence.errors import InvalidRequest
from importers.calendar.event_fields import (
    EventTimes,
    event_data,
    recurrence_rules,
    series_id,
    time_fields,
)
from importers.calendar.expansion_limits import (
    SERIES_MAX_OCCURRENCES,
    ExpansionLimits,
    limits_per_file,
    limits_per_run,
)
from importers.calendar.recurrence import (
    Expansion,
    Recurrence,
    TimeZones,
    UnsupportedRuleError,
    Window,
    build_time_zones,
    expand,
    to_aware,
)
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options, claim_by_start, parse_time_zone
from importers.core.results import ExportItem, ExportItems, ParsedItem, ParsedRecord, ReceiptCode
from importers.core.streaming import (
    FILE_MAX_BYTES,
    Component,
    close_component,
    iter_components,
    property_value,
)
from importers.core.text import one_line, replace_unstorable, to_utf8

MAX_EVENT_LENGTH = timedelta(days=36_600)
EMPTY_LONG_FIELDS: dict[str, Any] = {"description": None, "attendees": []}
"""Replaces the long fields of all occurrences but the first if the series would be too large."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """What all events of a file share."""

    name: str
    zones: TimeZones
    window: Window
    limits: ExpansionLimits


def _read_files(files: ExportFiles, options: Options) -> ExportItems:
    return iter_items(files, partial(_read_file, options=options, run_limits=limits_per_run()))


def _read_file(file: ExportFile, *, options: Options, run_limits: ExpansionLimits) -> ExportItems:
    content = to_utf8(file.read(max_bytes=FILE_MAX_BYTES // 2))
    components = list(iter_components(content, names=frozenset({"VEVENT", "VTIMEZONE"})))
    zones = [component for component in components if component.name == "VTIMEZONE"]
    calendar = Calendar(
        name=one_line(property_value(content[:65536], "X-WR-CALNAME") or file.path.stem),
        zones=build_time_zones(zones, floating=_default_zone(content) or options.zone),
        window=Window.from_options(options),
        limits=limits_per_file(run_limits),
    )
    series = _group_by_uid(component for component in components if component.name == "VEVENT")
    for events in series.values():
        size = sum(component.size for component in events)
        parse = partial(_parse_series, events, calendar)
        yield ExportItem(file.name, f"line {events[0].line:,}", size, parse)


def _default_zone(content: bytes) -> tzinfo | None:
    """Return the zone for times without a zone, which Google exports name."""
    name = property_value(content[:65536], "X-WR-TIMEZONE")
    try:
        return parse_time_zone(name) if name else None
    except InvalidRequest:
        return None


def _group_by_uid(events: Iterable[Component]) -> dict[str, list[Component]]:
    """Group events with their overrides, which can be anywhere in the file."""
    series: dict[str, list[Component]] = {}
    for component in events:
        uid = property_value(component.text, "UID") if component.text else None
        series.setdefault(uid or f"\0{component.line}", []).append(component)
    return series


def _parse_series(components: Sequence[Component], calendar: Calendar) -> ParsedItem:
    item = ParsedItem()
    if len(components) > SERIES_MAX_OCCURRENCES:
        item.add_issue(ReceiptCode.TOO_MANY_OCCURRENCES)
    events = [
        event
        for component in components[:SERIES_MAX_OCCURRENCES]
        if (event := _parse_event(component, item)) is not None
    ]
    overrides: dict[str, ParsedRecord] = {}
    for event in events:
        if "RECURRENCE-ID" in event and (record := _override(event, calendar, item)):
            overrides[record.data["id"]] = record
    for event in events:
        if "RECURRENCE-ID" not in event:
            records = _occurrences(event, calendar, item)
            item.records += [overrides.pop(record.data["id"], record) for record in records]
    item.records += overrides.values()
    return item


def _parse_event(component: Component, item: ParsedItem) -> Event | None:
    if component.text is None:
        item.add_issue(ReceiptCode.TOO_LARGE)
        return None
    try:
        text = replace_unstorable(component.text.decode("utf-8", "replace"))
        event = Event.from_ical(close_component(text, "VEVENT"))
    except (ValueError, IndexError, KeyError, TypeError) as error:
        item.add_issue(ReceiptCode.MALFORMED, detail=str(error)[:100])
        return None
    return event if isinstance(event, Event) else None


def _event_times(event: Event, calendar: Calendar, item: ParsedItem) -> EventTimes | None:
    start = _date_property(event, "DTSTART")
    if start is None or not _is_convertible(start):
        item.add_issue(ReceiptCode.BAD_DATE, detail=_raw_text(event.get("DTSTART"))[:80])
        return None
    zone, name = _zone(event, start, calendar, item)
    is_all_day = not isinstance(start, datetime)
    aware_start = to_aware(start, zone=zone)
    end = _date_property(event, "DTEND")
    length = timedelta(days=1) if is_all_day else timedelta()
    if end is not None and _is_convertible(end):
        length = to_aware(end, zone=zone) - aware_start
    elif isinstance(duration := event.get("DURATION"), vDDDTypes):
        length = duration.dt if isinstance(duration.dt, timedelta) else length
    if not timedelta() <= length <= MAX_EVENT_LENGTH:
        raw = _raw_text(event.get("DTEND") or event.get("DURATION"))
        item.add_issue(ReceiptCode.BAD_DATE, detail=raw[:80])
        length = timedelta()
    return EventTimes(aware_start, length, is_all_day, name)


def _raw_text(value: Any) -> str:
    """Return a property value as in the file, if icalendar kept it."""
    try:
        text = value.to_ical()
    except (AttributeError, ValueError):
        return str(value or "")
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def _is_convertible(day: date) -> bool:
    """Return whether the date stays in the range of datetime in every time zone."""
    return MINYEAR < day.year < MAXYEAR


def _zone(
    event: Event, start: date, calendar: Calendar, item: ParsedItem
) -> tuple[tzinfo, str | None]:
    name = event["DTSTART"].params.get("TZID")
    if name:
        zone = calendar.zones.get(str(name))
        if zone is None:
            item.add_issue(ReceiptCode.UNKNOWN_TIME_ZONE, detail=str(name)[:80])
        return zone or calendar.zones.floating, one_line(str(name), max_chars=100)
    if isinstance(start, datetime) and start.tzinfo is not None:
        return UTC, "UTC"
    return calendar.zones.floating, None


def _date_property(event: Event, name: str) -> date | None:
    """Return a date or time, without the zone from icalendar: TimeZones knows more zones."""
    value = event.get(name)
    day = None if isinstance(value, vBroken) else getattr(value, "dt", None)
    if isinstance(day, datetime) and event[name].params.get("TZID"):
        return day.replace(tzinfo=None)
    return day if isinstance(day, date) else None


def _occurrences(event: Event, calendar: Calendar, item: ParsedItem) -> list[ParsedRecord]:
    times = _event_times(event, calendar, item)
    rules = recurrence_rules(event)
    if times is None or (not rules and "RDATE" not in event):
        return [_record(event, calendar, times, key=series_id(event), item=item)]
    limits = calendar.limits.per_series()
    try:
        expansion = _expand_event(event, calendar, times, rules, max_steps=limits.steps)
    except UnsupportedRuleError:
        item.add_issue(ReceiptCode.BAD_RECURRENCE, detail=" ".join(rules))
        return [_record(event, calendar, times, key=_key(event, times.start), item=item)]
    calendar.limits.subtract(steps=expansion.steps)
    if skipped := expansion.describe_skipped(calendar.window):
        item.add_issue(ReceiptCode.OUTSIDE_WINDOW, detail=skipped)
    return _series_records(event, calendar, times, expansion, limits, item)


def _series_records(
    event: Event,
    calendar: Calendar,
    times: EventTimes,
    expansion: Expansion,
    limits: ExpansionLimits,
    item: ParsedItem,
) -> list[ParsedRecord]:
    """Return a record for each occurrence within the limits, and always one for the first."""
    data = event_data(event, calendar.name, times, key="", item=item)
    short_data = data | EMPTY_LONG_FIELDS
    size, short_size = len(orjson.dumps(data)), len(orjson.dumps(short_data))
    starts = expansion.starts
    is_too_large = size > short_size and size * min(len(starts), limits.occurrences) > limits.size
    if is_too_large:
        item.add_issue(ReceiptCode.TEXT_ONCE)
    other_data = short_data if is_too_large else data
    other_size = short_size if is_too_large else size
    max_count = max(1, min(limits.occurrences, 1 + (limits.size - size) // other_size))
    if len(starts) > max_count or expansion.is_truncated:
        item.add_issue(ReceiptCode.TOO_MANY_OCCURRENCES)
    starts = expansion.closest_starts(calendar.window.today, max_count=max_count)
    calendar.limits.subtract(
        occurrences=len(starts), size=size + other_size * max(0, len(starts) - 1)
    )
    return [
        ParsedRecord(
            "events",
            start_data | {"id": _key(event, start)} | time_fields(replace(times, start=start)),
        )
        for start, start_data in zip(starts, chain([data], repeat(other_data)), strict=False)
    ]


def _expand_event(
    event: Event, calendar: Calendar, times: EventTimes, rules: tuple[str, ...], *, max_steps: int
) -> Expansion:
    zone = times.start.tzinfo or UTC
    recurrence = Recurrence(
        times.start.replace(tzinfo=None),
        zone,
        rules,
        frozenset(_listed_dates(event, "RDATE", zone)),
        frozenset(_listed_dates(event, "EXDATE", zone)),
    )
    return expand(recurrence, window=calendar.window, max_steps=max_steps)


def _listed_dates(event: Event, name: str, zone: tzinfo) -> Iterable[datetime]:
    """Yield the times of all RDATE or EXDATE properties."""
    value = event.get(name, [])
    for dates in value if isinstance(value, list) else [value]:
        for listed in [] if isinstance(dates, vBroken) else dates.dts:
            time = listed.dt[0] if isinstance(listed.dt, tuple) else listed.dt
            if not _is_convertible(time):
                continue
            is_local = bool(dates.params.get("TZID")) and isinstance(time, datetime)
            yield to_aware(time.replace(tzinfo=None) if is_local else time, zone=zone)


def _override(event: Event, calendar: Calendar, item: ParsedItem) -> ParsedRecord | None:
    """Return a changed occurrence under the key of the occurrence that it replaces."""
    times = _event_times(event, calendar, item)
    replaced = _date_property(event, "RECURRENCE-ID")
    if times is None or replaced is None or not _is_convertible(replaced):
        return None
    zone = times.start.tzinfo or UTC
    name = event["RECURRENCE-ID"].params.get("TZID")
    zone = (calendar.zones.get(str(name)) if name else None) or zone
    key = _key(event, to_aware(replaced, zone=zone))
    return _record(event, calendar, times, key=key, item=item)


def _key(event: Event, start: datetime) -> str:
    return f"{series_id(event)}.{start.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _record(
    event: Event, calendar: Calendar, times: EventTimes | None, *, key: str, item: ParsedItem
) -> ParsedRecord:
    return ParsedRecord("events", event_data(event, calendar.name, times, key=key, item=item))


ICALENDAR = Importer(
    name="icalendar",
    title="calendars (iCalendar)",
    source="calendar",
    label="Calendar",
    has_local_times=True,
    has_recurring_events=True,
    claim=claim_by_start(b"BEGIN:VCALENDAR", ".ics", ".ical", ".ifb"),
    read=_read_files,
)
