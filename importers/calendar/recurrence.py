"""When a repeating event takes place."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import islice
from math import prod
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr
from icalendar import Timezone
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from importers.core.streaming import Component, value

OCCURRENCES = 5_000
FIRST_YEAR = 1900
LONGEST = dict(zip(range(1, 13), (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), strict=True))
RULES = 20
RULE_CHARS = 500
TIMES_OF_A_DAY = 100
_TOO_FINE = re.compile(r"FREQ=(?:SECONDLY|MINUTELY|HOURLY)", re.IGNORECASE)
_BOUND = re.compile(r"(?:^|;)(UNTIL|COUNT)=([^;]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Repetition:
    """``start`` without its zone, ``zone`` beside it: rules speak of the time on the wall."""

    start: datetime
    zone: tzinfo
    rules: tuple[str, ...]
    extra: frozenset[datetime] = frozenset()
    left_out: frozenset[datetime] = field(default=frozenset())


class NoRuleError(Exception):
    """The rule cannot be followed."""


def occurrences(repetition: Repetition, *, horizon: datetime) -> list[datetime]:
    """The moments up to the horizon, at most OCCURRENCES and one more. Raises ``NoRuleError``."""
    if len(repetition.rules) > RULES or any(len(rule) > RULE_CHARS for rule in repetition.rules):
        raise NoRuleError
    found = {repetition.start.replace(tzinfo=repetition.zone)} | repetition.extra
    for rule in repetition.rules:
        found.update(_moments(rule, repetition, horizon))
    return sorted(found - repetition.left_out, key=_in_utc)[: OCCURRENCES + 1]


def _moments(rule: str, repetition: Repetition, horizon: datetime) -> Iterator[datetime]:
    if _TOO_FINE.search(rule) or repetition.start.year < FIRST_YEAR:
        raise NoRuleError
    parts = dict(pair.split("=", 1) for pair in rule.upper().split(";") if "=" in pair)
    _require_plain(parts)
    if _never(parts):
        return iter(())
    bounds = {name.upper(): value for name, value in _BOUND.findall(rule)}
    last = _last(bounds.get("UNTIL"), repetition.zone, horizon)
    bare = _BOUND.sub("", rule).strip(";")
    end = last.astimezone(repetition.zone).replace(tzinfo=None)
    try:
        count = int(bounds["COUNT"]) if "COUNT" in bounds else OCCURRENCES + 1
        rule_set = rrulestr(f"{bare};UNTIL={end:%Y%m%dT%H%M%S}", dtstart=repetition.start)
        found = list(islice(rule_set, max(0, min(count, OCCURRENCES + 1))))
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise NoRuleError from error
    return (moment.replace(tzinfo=repetition.zone) for moment in found)


def _require_plain(parts: dict[str, str]) -> None:
    """Raises ``NoRuleError`` for what RFC 5545 does not have, or what would take very long: days that
    are looked for until the year 9999, and every second of an hour."""
    of_years = parts.keys() & {"BYWEEKNO", "BYYEARDAY"}
    if "BYEASTER" in parts or (of_years and parts.get("FREQ") != "YEARLY"):
        raise NoRuleError
    times = [parts.get(name, "").count(",") + 1 for name in ("BYHOUR", "BYMINUTE", "BYSECOND")]
    if prod(times) > TIMES_OF_A_DAY:
        raise NoRuleError


def _never(parts: dict[str, str]) -> bool:
    """Whether a rule asks for days that no month has: it would be looked for until the year 9999."""
    try:
        days = [abs(int(day)) for day in parts.get("BYMONTHDAY", "").split(",") if day]
        months = [int(month) for month in parts.get("BYMONTH", "").split(",") if month]
        longest = max(LONGEST[month] for month in months or LONGEST)
    except (ValueError, KeyError) as error:
        raise NoRuleError from error
    if "BYSETPOS" in parts and parts.get("FREQ") == "DAILY":
        raise NoRuleError
    return bool(days) and min(days) > longest


def _last(until: str | None, zone: tzinfo, horizon: datetime) -> datetime:
    if until is None:
        return horizon
    for form, stated_zone in (("%Y%m%dT%H%M%SZ", UTC), ("%Y%m%dT%H%M%S", zone)):
        try:
            return min(horizon, datetime.strptime(until, form).replace(tzinfo=stated_zone))
        except ValueError:
            continue
    try:
        day = datetime.strptime(until[:8], "%Y%m%d")  # noqa: DTZ007 - the zone follows
    except ValueError as error:
        raise NoRuleError from error
    return min(horizon, day.replace(hour=23, minute=59, second=59, tzinfo=zone))


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


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


def zones_of(found: list[Component], *, floating: tzinfo) -> Zones:
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
