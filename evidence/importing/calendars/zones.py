"""The time zones that a calendar names."""

import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from icalendar import Timezone
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from evidence.importing.calendars.blocks import Block, value

_NAME_PARTS = 3
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])([01]?\d|2[0-3]):?([0-5]\d)?")


class Zones:
    """By TZID: of the world's zones where the name is one, else as the calendar defines it.
    ``floating`` is where times are meant that have none."""

    def __init__(self, defined: Mapping[str, bytes], *, floating: tzinfo) -> None:
        self.floating = floating
        self._defined = defined
        self._known: dict[str, tzinfo | None] = {}

    def named(self, name: str) -> tzinfo | None:
        if name not in self._known:
            self._known[name] = _world(name) or _offset(name) or self._own(name)
        return self._known[name]

    def _own(self, name: str) -> tzinfo | None:
        text = self._defined.get(name)
        if text is None:
            return None
        try:
            zone = Timezone.from_ical(text)
            return zone.to_tz(lookup_tzid=False) if isinstance(zone, Timezone) else None
        except Exception:  # noqa: BLE001 - whatever the definition makes the parser stumble over
            return None


def zones_of(found: list[Block], *, floating: tzinfo) -> Zones:
    defined = {
        name: block.text
        for block in found
        if block.text is not None and (name := value(block.text, "TZID"))
    }
    return Zones(defined, floating=floating)


def _world(name: str) -> tzinfo | None:
    """Outlook has names of its own, and some programs put a path before the name."""
    name = WINDOWS_TO_OLSON.get(name, name)
    parts = name.strip("/").split("/")
    for start in range(max(0, len(parts) - _NAME_PARTS), len(parts)):
        try:
            return ZoneInfo("/".join(parts[start:]))
        except (KeyError, ValueError, OSError):
            continue
    return None


def _offset(name: str) -> tzinfo | None:
    """Some programs name a zone by its distance: ``UTC+02:00``."""
    found = _OFFSET.fullmatch(name)
    if found is None:
        return None
    minutes = int(found[2]) * 60 + int(found[3] or 0)
    return timezone(timedelta(minutes=minutes if found[1] == "+" else -minutes))


def aware(moment: date, *, zone: tzinfo) -> datetime:
    """A date as its midnight."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - the zone follows
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
