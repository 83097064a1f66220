"""iCalendar: each event, and each occurrence of a repeating one, is a record."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta, tzinfo
from functools import partial
from typing import Any

import orjson
from icalendar import Event, vDDDTypes
from icalendar.prop.broken import vBroken

from evidence.errors import InvalidRequest
from importers.calendar.event_fields import When, data_of, rules_of, series_of, times_of
from importers.calendar.recurrence import (
    OCCURRENCES,
    NoRuleError,
    Repetition,
    Zones,
    aware,
    occurrences,
    zones_of,
)
from importers.core.export_files import Entry, each
from importers.core.importer import Entries, Kind, Options, zone_named
from importers.core.results import Code, Item, Piece, Pieces, Row
from importers.core.streaming import FILE_BYTES, Component, iter_components, value
from importers.core.text import one_line, storable

LONGEST_EVENT = timedelta(days=36_600)
SERIES_BYTES = 128 * 1024 * 1024
"""All occurrences of an event together, each of which says all that it says."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """What all events of a file share."""

    name: str
    zones: Zones
    horizon: datetime


def _claim(entries: Entries) -> list[Entry]:
    return [
        entry
        for entry in entries
        if entry.suffix in (".ics", ".ical", ".ifb")
        or entry.head.lstrip(b"\xef\xbb\xbf \r\n")[:15].upper() == b"BEGIN:VCALENDAR"
    ]


def _read(entries: Entries, options: Options) -> Pieces:
    return each(entries, partial(_file, options=options))


def _file(entry: Entry, *, options: Options) -> Pieces:
    content = entry.read(most=FILE_BYTES // 2)
    found = list(iter_components(content, names=frozenset({"VEVENT", "VTIMEZONE"})))
    zones = [block for block in found if block.name == "VTIMEZONE"]
    calendar = Calendar(
        name=one_line(value(content[:65536], "X-WR-CALNAME") or entry.path.stem),
        zones=zones_of(zones, floating=_own_zone(content) or options.zone),
        horizon=datetime(options.horizon_year, 12, 31, 23, 59, 59, tzinfo=UTC),
    )
    series = _by_uid(block for block in found if block.name == "VEVENT")
    for same in series.values():
        size = sum(block.size for block in same)
        yield Piece(entry.name, f"line {same[0].line:,}", size, partial(_events, same, calendar))


def _own_zone(content: bytes) -> tzinfo | None:
    """Where Google says that times without a zone are meant."""
    stated = value(content[:65536], "X-WR-TIMEZONE")
    try:
        return zone_named(stated) if stated else None
    except InvalidRequest:
        return None


def _by_uid(events: Iterable[Component]) -> dict[str, list[Component]]:
    """An event and its exceptions, wherever they stand."""
    series: dict[str, list[Component]] = {}
    for block in events:
        uid = value(block.text, "UID") if block.text else None
        series.setdefault(uid or f"\0{block.line}", []).append(block)
    return series


def _events(same: Sequence[Component], calendar: Calendar) -> Item:
    item = Item()
    if len(same) > OCCURRENCES:
        item.remark(Code.TOO_MANY_OCCURRENCES)
    parsed = [event for block in same[:OCCURRENCES] if (event := _parsed(block, item)) is not None]
    changed: dict[str, Row] = {}
    for event in parsed:
        if "RECURRENCE-ID" in event and (row := _exception(event, calendar, item)):
            changed[row.data["id"]] = row
    for event in parsed:
        if "RECURRENCE-ID" not in event:
            rows = _occurring(event, calendar, item)
            item.rows += [changed.pop(row.data["id"], row) for row in rows]
    item.rows += changed.values()
    return item


def _parsed(block: Component, item: Item) -> Event | None:
    if block.text is None:
        item.remark(Code.TOO_LARGE)
        return None
    try:
        event = Event.from_ical(_ended(storable(block.text.decode("utf-8", "replace"))))
    except (ValueError, IndexError, KeyError, TypeError) as error:
        item.remark(Code.MALFORMED, detail=str(error)[:100])
        return None
    return event if isinstance(event, Event) else None


def _ended(text: str) -> str:
    """An event that the next one cut off is one all the same."""
    text = text.rstrip()
    return text if text.upper().endswith("END:VEVENT") else f"{text}\r\nEND:VEVENT"


def _when(event: Event, calendar: Calendar, item: Item) -> When | None:
    start = _moment(event, "DTSTART")
    if start is None or not _is_of_our_time(start):
        item.remark(Code.BAD_DATE, detail=_written(event.get("DTSTART"))[:80])
        return None
    zone, name = _zone(event, start, calendar, item)
    is_all_day = not isinstance(start, datetime)
    begin = aware(start, zone=zone)
    end = _moment(event, "DTEND")
    length = timedelta(days=1) if is_all_day else timedelta()
    if end is not None and _is_of_our_time(end):
        length = aware(end, zone=zone) - begin
    elif isinstance(stated := event.get("DURATION"), vDDDTypes):
        length = stated.dt if isinstance(stated.dt, timedelta) else length
    if not timedelta() <= length <= LONGEST_EVENT:
        stated = event.get("DTEND") or event.get("DURATION")
        item.remark(Code.BAD_DATE, detail=_written(stated)[:80])
        length = timedelta()
    return When(begin, length, is_all_day, name)


def _written(stated: Any) -> str:
    """As it stands in the file, where that can be said."""
    try:
        written = stated.to_ical()
    except (AttributeError, ValueError):
        return str(stated or "")
    return written.decode("utf-8", "replace") if isinstance(written, bytes) else str(written)


def _is_of_our_time(day: date) -> bool:
    """Whether it is the same day of some year in every zone."""
    return MINYEAR < day.year < MAXYEAR


def _zone(event: Event, start: date, calendar: Calendar, item: Item) -> tuple[tzinfo, str | None]:
    name = event["DTSTART"].params.get("TZID")
    if name:
        known = calendar.zones.named(str(name))
        if known is None:
            item.remark(Code.UNKNOWN_TIME_ZONE, detail=str(name)[:80])
        return known or calendar.zones.floating, one_line(str(name), most=100)
    if isinstance(start, datetime) and start.tzinfo is not None:
        return UTC, "UTC"
    return calendar.zones.floating, None


def _moment(event: Event, name: str) -> date | None:
    """Without the zone that the parser gave it, for ours knows more of them."""
    stated = event.get(name)
    found = None if isinstance(stated, vBroken) else getattr(stated, "dt", None)
    if isinstance(found, datetime) and event[name].params.get("TZID"):
        return found.replace(tzinfo=None)
    return found if isinstance(found, date) else None


def _occurring(event: Event, calendar: Calendar, item: Item) -> list[Row]:
    when = _when(event, calendar, item)
    if when is None:
        return [Row("events", data_of(event, calendar.name, None, key=series_of(event), item=item))]
    rules = rules_of(event)
    if not rules and "RDATE" not in event:
        return [_row(event, calendar, when, key=series_of(event), item=item)]
    try:
        starts = _starts(event, calendar, when, rules)
    except NoRuleError:
        item.remark(Code.BAD_RECURRENCE, detail=" ".join(rules))
        starts = [when.start]
    data = data_of(event, calendar.name, when, key="", item=item)
    most = max(1, min(OCCURRENCES, SERIES_BYTES // len(orjson.dumps(data))))
    if len(starts) > most:
        item.remark(Code.TOO_MANY_OCCURRENCES)
    return [
        Row("events", data | {"id": _key(event, start)} | times_of(replace(when, start=start)))
        for start in starts[:most]
    ]


def _starts(event: Event, calendar: Calendar, when: When, rules: tuple[str, ...]) -> list[datetime]:
    zone = when.start.tzinfo or UTC
    repetition = Repetition(
        when.start.replace(tzinfo=None),
        zone,
        rules,
        frozenset(_listed(event, "RDATE", zone)),
        frozenset(_listed(event, "EXDATE", zone)),
    )
    return occurrences(repetition, horizon=calendar.horizon)


def _listed(event: Event, name: str, zone: tzinfo) -> Iterable[datetime]:
    """The moments of an RDATE or EXDATE, of which there may be several lists."""
    found = event.get(name, [])
    lists = found if isinstance(found, list) else [found]
    for dates in lists:
        for each_date in [] if isinstance(dates, vBroken) else dates.dts:
            moment = each_date.dt[0] if isinstance(each_date.dt, tuple) else each_date.dt
            if not _is_of_our_time(moment):
                continue
            is_local = bool(dates.params.get("TZID")) and isinstance(moment, datetime)
            yield aware(moment.replace(tzinfo=None) if is_local else moment, zone=zone)


def _exception(event: Event, calendar: Calendar, item: Item) -> Row | None:
    """One occurrence that is not as the others, under the key of the one that it replaces."""
    when = _when(event, calendar, item)
    instead_of = _moment(event, "RECURRENCE-ID")
    if when is None or instead_of is None or not _is_of_our_time(instead_of):
        return None
    zone = when.start.tzinfo or UTC
    named = event["RECURRENCE-ID"].params.get("TZID")
    zone = (calendar.zones.named(str(named)) if named else None) or zone
    return _row(event, calendar, when, key=_key(event, aware(instead_of, zone=zone)), item=item)


def _key(event: Event, start: datetime) -> str:
    return f"{series_of(event)}.{start.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _row(event: Event, calendar: Calendar, when: When, *, key: str, item: Item) -> Row:
    return Row("events", data_of(event, calendar.name, when, key=key, item=item))


ICALENDAR = Kind(
    name="icalendar",
    title="calendars (iCalendar)",
    source="calendar",
    label="Calendar",
    has_local_times=True,
    claim=_claim,
    read=_read,
)
