"""Keep calendars and contacts up to date over CalDAV and CardDAV.

Their records are those of an import of the same events and cards.
"""

import re
from collections.abc import Iterator
from datetime import tzinfo
from functools import partial
from urllib.parse import urljoin

from evidence.errors import InvalidRequest
from importers.calendar.feed import horizon_year, lazy_series
from importers.calendar.icalendar import group_by_uid, parse_calendar
from importers.calendar.recurrence import ExpansionLimits, limits_per_run
from importers.calendar.series import StoredSeries, parse_series
from importers.contacts import parse_card
from importers.core.importer import UTC_ZONE, Options, parse_time_zone
from importers.core.readers import property_value
from importers.core.results import ParsedItem
from importers.core.source import Container, Event, Source, SourceRun
from importers.core.source_http import HttpClient, Resource, basic_authorization
from importers.dav.collections import CollectionRun, Entries
from importers.dav.discovery import (
    ADDRESS_BOOKS,
    CALDAV,
    CALENDARS,
    CARDDAV,
    Service,
    collection_name,
    find_collections,
)

TIME_ZONE = f"{CALDAV}calendar-timezone"
_OTHER_NAME = re.compile(rb"^X-WR-CALNAME[;:].*\n(?:[ \t].*\n)*", re.MULTILINE | re.IGNORECASE)
"""The name of the calendar in which an event was before."""

CARDS = Entries(
    f"{CARDDAV}addressbook-multiget",
    f"{CARDDAV}address-data",
    lambda content, _address_book: parse_card(content),
)


def _read_calendars(run: SourceRun) -> Iterator[Event]:
    year = horizon_year(run)
    parse = partial(_parse, year=year, limits=limits_per_run(), stored=lazy_series(run))
    entries = Entries(
        f"{CALDAV}calendar-multiget", f"{CALDAV}calendar-data", parse, str(year), (TIME_ZONE,)
    )
    yield from _read(run, entries)


def _read(run: SourceRun, entries: Entries) -> Iterator[Event]:
    with _sign_in(run) as client:
        yield from CollectionRun(run, client, entries).events()


def _sign_in(run: SourceRun) -> HttpClient:
    authorization = basic_authorization(run.settings["user"], run.credential["password"])
    return HttpClient(run.network, run.settings["url"], authorization, run.hosts)


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


def _list(run: SourceRun, *, service: Service) -> list[Container]:
    """Return what the owner can choose."""
    with _sign_in(run) as client:
        found = find_collections(client, service)
    here = urljoin(client.url, "/")
    return [
        # The path alone, unless another server has it.
        Container(f"/{each.url.removeprefix(here)}", collection_name(each), is_usual=True)
        if each.url.startswith(here)
        else Container(each.url, collection_name(each), is_usual=True)
        for each in found
    ]


CALENDAR_ACCOUNT = Source(run=_read_calendars, containers=partial(_list, service=CALENDARS))
CONTACT_ACCOUNT = Source(
    run=partial(_read, entries=CARDS), containers=partial(_list, service=ADDRESS_BOOKS)
)
