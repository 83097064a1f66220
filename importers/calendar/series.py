"""Convert the entries of one event to records: the event, its occurrences and their exceptions.

An occurrence that the owner erased stays erased when a newer export moves its series: the start of
an occurrence is its key, and those of both exports are paired.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from hashlib import sha256
from itertools import chain, pairwise
from typing import Any, NamedTuple

import orjson
from icalendar import Event, vText
from icalendar.prop.broken import vBroken

from importers.calendar.event_fields import (
    EventTimes,
    date_property,
    event_data,
    event_times,
    ical_text,
    is_convertible,
    recurrence_rules,
    series_id,
    time_fields,
    to_ical,
    values,
)
from importers.calendar.recurrence import (
    SERIES_MAX_OCCURRENCES,
    Expansion,
    ExpansionLimits,
    Recurrence,
    TimeZones,
    UnsupportedRuleError,
    Window,
    expand,
    to_aware,
)
from importers.core.readers import (
    Component,
    close_component,
    decode_quoted_printable,
    property_value,
    unfold,
)
from importers.core.results import ParsedItem, ParsedRecord, ReceiptCode, StaleRecords, record_key
from importers.core.text import one_line, replace_unstorable

StoredSeries = Callable[[], Mapping[str, Sequence[datetime]]]
_OTHER_ENTRIES = {"VTODO": "task", "VJOURNAL": "journal entry"}
_CHANGING = re.compile(
    rb"^(?:(?:DTSTAMP|CREATED|LAST-MODIFIED|SEQUENCE|STATUS|TRANSP|CLASS|PRIORITY|COMMENT|X-[\w-]+)[;:]"
    rb"[^\n]*|BEGIN:VALARM.*?^END:VALARM[^\n]*)\n?",
    re.MULTILINE | re.IGNORECASE | re.DOTALL,
)
"""What differs between the versions of one event, such as its cancellation."""
_COMPARED = (
    "DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "STATUS", "SEQUENCE", "SUMMARY",
    "LOCATION", "DESCRIPTION", "COMMENT", "CONTACT", "RESOURCES", "URL", "ORGANIZER", "ATTENDEE",
    "CATEGORIES",
)  # fmt: skip
"""What is imported of an event: versions that differ in it have a receipt."""
EMPTY_LONG_FIELDS: dict[str, Any] = {"description": None, "attendees": []}
"""Replaces the long fields of all occurrences but the first if the series would be too large."""
MAX_KEPT_EARLIER = 10_000
_NEIGHBORS = 8


@dataclass(frozen=True, slots=True)
class Calendar:
    """What all events of a calendar share. ``stored`` returns first starts of stored series.

    ``method`` is that of an invitation, such as CANCEL, or empty. ``has_name``: the name is not that
    of the file.
    """

    name: str
    zones: TimeZones
    window: Window
    limits: ExpansionLimits
    stored: StoredSeries = dict
    method: str = ""
    has_name: bool = False


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
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
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
            newest[replaced], entry = entry, current
        calendar = entry.calendar
        if calendar.has_name and calendar.name != newest[replaced].calendar.name:
            item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail=f"calendar {calendar.name}"[:80])
    return list(newest.values())


def _version(entry: ParsedEntry) -> tuple[bool, int, str, bool]:
    """Return what orders versions. The answer of a guest repeats only a part of the event."""
    event = entry.event
    sequence = ical_text(event, "SEQUENCE")
    stamp = ical_text(event, "LAST-MODIFIED") or ical_text(event, "DTSTAMP")
    is_answer = entry.calendar.method in ("REPLY", "COUNTER", "REFRESH")
    is_cancelled = ical_text(event, "STATUS").upper() == "CANCELLED"
    return not is_answer, int(sequence) if sequence.isdecimal() else 0, stamp, is_cancelled


def _content(event: Event) -> list[list[str]]:
    return [[to_ical(value) for value in values(event, name)] for name in _COMPARED]


class Override(NamedTuple):
    """A changed occurrence, with the start that it replaces and its times, if these are valid."""

    event: Event
    calendar: Calendar
    replaced: datetime | None
    times: EventTimes | None
    is_for_later: bool


def parse_series(entries: Sequence[Entry]) -> ParsedItem:
    item = ParsedItem()
    master, overrides = None, []
    for entry in parse_entries(entries, item):
        if "RECURRENCE-ID" in entry.event:
            overrides.append(entry)
        else:
            master = entry
    if master is None:
        for override in _overrides(overrides, {}, item):
            item.records.append(_override_record(override, item))
    else:
        _add_series(master, overrides, item)
    return item


def _add_series(master: ParsedEntry, entries: list[ParsedEntry], item: ParsedItem) -> None:
    """Add the records of an event, and what an earlier import stored of it but is outdated."""
    event, calendar = master
    times = event_times(event, calendar.zones, item)
    rules = recurrence_rules(event)
    series = series_id(event)
    if times is None or (not rules and "RDATE" not in event):
        item.records.append(_record(master, times, key=series, item=item))
        changed = [_override_record(each, item) for each in _overrides(entries, {}, item)]
        item.records += changed
        keep = [series, *(record.data["id"] for record in changed)]
        item.stale.append(StaleRecords("events", series, tuple(keep)))
        return
    limits = calendar.limits.per_series()
    try:
        expansion, lengths = _expand_event(master, times, rules, item, max_steps=limits.steps)
    except UnsupportedRuleError:
        excluding = (f"EXRULE {rule}" for rule in recurrence_rules(event, name="EXRULE"))
        item.add_issue(ReceiptCode.BAD_RECURRENCE, detail=" ".join((*rules, *excluding)))
        item.records.append(_record(master, times, key=key_of(series, times.start), item=item))
        item.records += [_override_record(each, item) for each in _overrides(entries, {}, item)]
        return
    calendar.limits.subtract(steps=expansion.steps)
    if skipped := expansion.describe_skipped(calendar.window):
        item.add_issue(ReceiptCode.OUTSIDE_WINDOW, detail=skipped)
    days = _days(chain(expansion.starts, expansion.earlier), times)
    overrides = list(_overrides(entries, days, item))
    found = _series_records(master, times, expansion, lengths, overrides, limits, item)
    starts = {key_of(series, start): start for start in expansion.starts}
    stored, zone = calendar.stored().get(series, ()), times.start.tzinfo or UTC
    if not found:
        title = one_line(str(event.get("SUMMARY", "")), max_chars=60)
        item.add_issue(ReceiptCode.DELETED, detail=f"every occurrence of {title}")
    item.records += add_moved_keys(series, found, starts, stored, zone)
    item.stale += _stale_records(series, expansion, calendar.window, item.records)


def _days(starts: Iterable[datetime], times: EventTimes) -> dict[date | datetime, datetime]:
    """Return the start of each instant, and of each day with a single start."""
    days: dict[date | datetime, datetime] = {}
    several: set[date] = set()
    for start in starts:
        days[start.astimezone(UTC)] = start
        day = start.astimezone(times.start.tzinfo).date()
        if days.setdefault(day, start) != start:
            several.add(day)
    for day in several:
        del days[day]
    return days


def _overrides(
    entries: Iterable[ParsedEntry], days: dict[date | datetime, datetime], item: ParsedItem
) -> Iterator[Override]:
    taken: set[datetime] = set()
    for event, calendar in entries:
        times = event_times(event, calendar.zones, item)
        replaced = date_property(event, "RECURRENCE-ID")
        if replaced is None or not is_convertible(replaced):
            item.add_issue(ReceiptCode.BAD_DATE, detail=ical_text(event, "RECURRENCE-ID")[:80])
            yield Override(event, calendar, None, times, is_for_later=False)
            continue
        name = event["RECURRENCE-ID"].params.get("TZID")
        zone = calendar.zones.get(str(name)) if name else None
        zone = zone or (times and times.start.tzinfo) or UTC
        is_for_later = str(event["RECURRENCE-ID"].params.get("RANGE", "")).upper()
        if is_for_later:
            item.add_issue(ReceiptCode.CHANGES_LATER, detail=ical_text(event, "RECURRENCE-ID"))
        start = _find_start(replaced, zone, calendar.zones.floating, days)
        if start in taken:  # two of one day
            start = to_aware(replaced, zone=zone)
        taken.add(start)
        yield Override(event, calendar, start, times, is_for_later == "THISANDFUTURE")


def _find_start(
    replaced: date, zone: tzinfo, floating: tzinfo, days: dict[date | datetime, datetime]
) -> datetime:
    """Return the start that a RECURRENCE-ID means.

    Programs write a time for an all-day series, a day for a timed one, or leave out the zone. Then
    the only start of that day is meant. Any other time is an occurrence of its own.
    """
    aware = to_aware(replaced, zone=zone)
    if start := days.get(aware.astimezone(UTC)):
        return start
    if not isinstance(replaced, datetime):
        return days.get(replaced, aware)
    found = (days.get(day) for day in (replaced.date(), aware.astimezone(floating).date()))
    times = (datetime.min.time(), replaced.time())  # midnight of a series of days
    return next((start for start in found if start and start.time() in times), aware)


def _stale_records(
    series: str, expansion: Expansion, window: Window, records: Sequence[ParsedRecord]
) -> list[StaleRecords]:
    """Return which stored occurrences the series no longer has, if all are known."""
    if expansion.is_truncated:
        return []
    keep = {record.data["id"] for record in records}
    keep.update(key_of(series, start) for start in expansion.starts)
    first = ""
    if len(expansion.earlier) > MAX_KEPT_EARLIER:
        first = key_of(series, window.first)
    else:
        keep.update(key_of(series, start) for start in expansion.earlier)
    return [StaleRecords("events", series, tuple(sorted(keep)), first)]


def _series_records(
    master: ParsedEntry,
    times: EventTimes,
    expansion: Expansion,
    lengths: Mapping[datetime, timedelta],
    overrides: Sequence[Override],
    limits: ExpansionLimits,
    item: ParsedItem,
) -> list[ParsedRecord]:
    """Return a record for each occurrence within the limits, and always one for the first."""
    event, calendar = master
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
    series = series_id(event)
    changed = {each.data["id"]: each for each in (_override_record(o, item) for o in overrides)}
    later = [
        (each.replaced, each.times, each)
        for each in overrides
        if each.is_for_later and each.replaced and each.times
    ]
    later.sort(key=lambda each: each[0])
    records = []
    for number, start in enumerate(starts):
        key = key_of(series, start)
        start_data = (other_data if number else data) | {"id": key}
        fields = start_data | time_fields(times.starting_at(start, lengths))
        record = ParsedRecord("events", _change_later(fields, start, later, is_short=is_too_large))
        records.append(changed.pop(key, record))
    return records + list(changed.values())


def _change_later(
    fields: dict[str, Any],
    start: datetime,
    overrides: Sequence[tuple[datetime, EventTimes, Override]],
    *,
    is_short: bool,
) -> dict[str, Any]:
    """Apply the latest exception that also changes later occurrences."""
    found = next((each for each in reversed(overrides) if each[0] < start), None)
    if found is None:
        return fields
    replaced, times, override = found
    local = start.astimezone(times.start.tzinfo).replace(tzinfo=None)
    shift = times.start.replace(tzinfo=None) - replaced.astimezone(times.start.tzinfo).replace(
        tzinfo=None
    )
    moved = replace(times, start=(local + shift).replace(tzinfo=times.start.tzinfo))
    calendar = override.calendar.name
    changed = event_data(override.event, calendar, moved, key=fields["id"], item=ParsedItem())
    changed["recurrence"] = changed["recurrence"] or fields["recurrence"]
    return changed | EMPTY_LONG_FIELDS if is_short else changed


def _expand_event(
    master: ParsedEntry,
    times: EventTimes,
    rules: tuple[str, ...],
    item: ParsedItem,
    *,
    max_steps: int,
) -> tuple[Expansion, dict[datetime, timedelta]]:
    """Return the occurrences, and the lengths of those that have their own."""
    event, calendar = master
    if "EXRULE" in event:  # RFC 5545 removed it, and without it there would be too many occurrences
        raise UnsupportedRuleError
    zone = times.start.tzinfo or UTC
    excluded = [time for time, _ in _listed_dates(event, "EXDATE", calendar, zone, item)]
    added = {
        _added_start(time, times): length
        for time, length in _listed_dates(event, "RDATE", calendar, zone, item)
    }
    recurrence = Recurrence(
        times.start.replace(tzinfo=None),
        zone,
        rules,
        frozenset(added),
        frozenset(to_aware(time, zone=zone) for time in excluded),
        frozenset(_excluded_days(excluded, calendar.zones.floating, is_all_day=times.is_all_day)),
        times.is_all_day,
    )
    expansion = expand(recurrence, window=calendar.window, max_steps=max_steps)
    return expansion, {start: length for start, length in added.items() if length is not None}


def _added_start(time: date, times: EventTimes) -> datetime:
    """Return the start that an RDATE adds; a day has the time of day of the series."""
    if isinstance(time, datetime):
        return time
    return datetime.combine(time, times.start.timetz())


def _excluded_days(
    excluded: Iterable[date], floating: tzinfo, *, is_all_day: bool
) -> Iterator[date]:
    """Yield days without an occurrence: days for a timed series, or times for an all-day one."""
    for time in excluded:
        if not isinstance(time, datetime):
            yield time
        elif is_all_day:
            is_midnight = time.time() == datetime.min.time()
            yield time.date() if is_midnight else time.astimezone(floating).date()


def _listed_dates(
    event: Event, name: str, calendar: Calendar, zone: tzinfo, item: ParsedItem
) -> Iterator[tuple[date, timedelta | None]]:
    """Yield the days and times of all RDATE or EXDATE properties; times have a zone.

    Each comes with its length if it is a period.
    """
    for dates in values(event, name):
        if isinstance(dates, vBroken):
            item.add_issue(ReceiptCode.BAD_LISTED_DATE, detail=name)
            continue
        zone_name = str(dates.params.get("TZID") or "")
        listed_zone = (calendar.zones.get(zone_name) if zone_name else None) or zone
        for listed in dates.dts:
            time, length = _start_and_length(listed.dt)
            if not isinstance(time, date):
                item.add_issue(ReceiptCode.BAD_LISTED_DATE, detail=f"{name} {time}"[:80])
            elif not is_convertible(time):
                continue  # no occurrence is imported there
            elif not isinstance(time, datetime):
                yield time, length
            else:
                written = time.replace(tzinfo=None) if zone_name else time
                yield to_aware(written, zone=listed_zone), length


def _start_and_length(listed: Any) -> tuple[Any, timedelta | None]:
    """Return the start of a time or period, and the exact length of a period."""
    if not isinstance(listed, tuple):
        return listed, None
    start, end = listed
    if isinstance(end, timedelta):
        return start, end
    return start, end.astimezone(UTC) - start.astimezone(UTC)


def _override_record(override: Override, item: ParsedItem) -> ParsedRecord:
    """Return a changed occurrence under the key of the occurrence that it replaces."""
    series = series_id(override.event)
    if override.replaced is not None:
        key = key_of(series, override.replaced)
    else:
        key = record_key(f"{series}.", ical_text(override.event, "RECURRENCE-ID"), length=8)
    entry = ParsedEntry(override.event, override.calendar)
    return _record(entry, override.times, key=key, item=item)


def _record(
    entry: ParsedEntry, times: EventTimes | None, *, key: str, item: ParsedItem
) -> ParsedRecord:
    data = event_data(entry.event, entry.calendar.name, times, key=key, item=item)
    return ParsedRecord("events", data)


def key_of(series: str, start: datetime) -> str:
    return f"{series}.{start.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def stored_series(keys: Iterable[str]) -> dict[str, list[datetime]]:
    """Return the starts of stored occurrences by series."""
    series: dict[str, list[datetime]] = {}
    for key in sorted(keys):
        name, _, written = key.partition(".")
        try:
            start = datetime.strptime(written, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except ValueError:
            continue
        series.setdefault(name, []).append(start)
    return series


def add_moved_keys(
    series: str,
    records: Sequence[ParsedRecord],
    starts: Mapping[str, datetime],
    stored: Sequence[datetime],
    zone: tzinfo,
) -> list[ParsedRecord]:
    """Return the records with the key that each had before the series moved, if it moved.

    ``starts`` are those of all occurrences by key.
    """
    shift = _find_shift(stored, starts.values(), zone)
    if not shift:
        return list(records)
    moved = []
    for record in records:
        start = starts.get(record.data["id"])
        before = start and (_wall_time(start, zone) - shift).replace(tzinfo=zone)
        key = before and key_of(series, before)
        is_new = key and key not in starts
        moved.append(ParsedRecord(record.stream, record.data, (key,)) if key and is_new else record)
    return moved


def _find_shift(
    stored: Sequence[datetime], starts: Iterable[datetime], zone: tzinfo
) -> timedelta | None:
    """Return by how much most stored occurrences moved, less than to the next of them.

    Local times are compared, since a moved series keeps them when daylight saving time begins.
    """
    new = sorted({_wall_time(start, zone) for start in starts})
    known = set(new)
    old = sorted({_wall_time(start, zone) for start in stored} - known)
    if not old or not new:
        return None
    shifts: Counter[timedelta] = Counter()
    for start in old:
        at = bisect_left(new, start)
        shifts.update(each - start for each in new[max(0, at - _NEIGHBORS) : at + _NEIGHBORS])
    gap = min((after - before for before, after in pairwise(new)), default=timedelta.max)
    near = {shift: count for shift, count in shifts.items() if abs(shift) < gap}
    if not near:
        return None
    best = max(near, key=lambda shift: (near[shift], -abs(shift)))
    return best if near[best] * 2 >= len(old) else None


def _wall_time(time: datetime, zone: tzinfo) -> datetime:
    return time.astimezone(zone).replace(tzinfo=None)
