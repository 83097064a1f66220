"""Keep calendars up to date over CalDAV, with the records of an import of the same events."""

import re
from collections.abc import Iterator
from datetime import tzinfo
from functools import partial

from evidence.errors import InvalidRequest
from importers.calendar.entries import StoredSeries
from importers.calendar.expansion_limits import ExpansionLimits, limits_per_run
from importers.calendar.feed import horizon_year, lazy_series
from importers.calendar.icalendar import group_by_uid, parse_calendar
from importers.calendar.series import parse_series
from importers.core.importer import UTC_ZONE, Options, parse_time_zone
from importers.core.results import ParsedItem
from importers.core.source import Container, Event, Source, SourceRun
from importers.core.streaming import property_value
from importers.core.webdav import Resource
from importers.dav.account import list_collections, sign_in
from importers.dav.collections import CollectionRun, Entries
from importers.dav.discovery import CALDAV, CALENDARS, collection_name

TIME_ZONE = f"{CALDAV}calendar-timezone"
_OTHER_NAME = re.compile(rb"^X-WR-CALNAME[;:].*\n(?:[ \t].*\n)*", re.MULTILINE | re.IGNORECASE)
"""The name of the calendar in which an event was before."""


def _read(run: SourceRun) -> Iterator[Event]:
    year = horizon_year(run)
    parse = partial(_parse, year=year, limits=limits_per_run(), stored=lazy_series(run))
    entries = Entries(
        f"{CALDAV}calendar-multiget", f"{CALDAV}calendar-data", parse, str(year), (TIME_ZONE,)
    )
    with sign_in(run) as client:
        yield from CollectionRun(run, client, entries).events()


def _parse(
    content: bytes,
    calendar: Resource,
    *,
    year: int,
    limits: ExpansionLimits,
    stored: StoredSeries,
) -> ParsedItem:
    options = Options(horizon_year=year, zone=_default_zone(calendar))
    name = collection_name(calendar)
    content = _OTHER_NAME.sub(b"", content)
    item = ParsedItem()
    entries = parse_calendar(content, name, options, limits, stored)
    for group in group_by_uid(entries).values():
        found = parse_series(group)
        item.records += found.records
        item.issues += found.issues
        item.stale += found.stale
    return item


def _default_zone(calendar: Resource) -> tzinfo:
    """Return the zone of the calendar, for times without one."""
    name = property_value(calendar.text(TIME_ZONE).encode(), "TZID")
    try:
        return parse_time_zone(name) if name else UTC_ZONE
    except InvalidRequest:
        return UTC_ZONE


def _list(run: SourceRun) -> list[Container]:
    return list_collections(run, CALENDARS)


CALENDAR_ACCOUNT = Source(run=_read, containers=_list)
