"""Expand recurrence rules (RRULE, RDATE, EXDATE), and resolve time zones (TZID, VTIMEZONE)."""

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

from importers.core.streaming import Component, property_value

MAX_OCCURRENCES = 5_000
FIRST_YEAR = 1900
MAX_DAYS = dict(zip(range(1, 13), (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), strict=True))
MAX_RULES = 20
RULE_MAX_CHARS = 500
MAX_TIMES_PER_DAY = 100
_TOO_FREQUENT = re.compile(r"FREQ=(?:SECONDLY|MINUTELY|HOURLY)", re.IGNORECASE)
_BOUND = re.compile(r"(?:^|;)(UNTIL|COUNT)=([^;]*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The rules of an event, with ``start`` in local time of ``zone``, as rules are."""

    start: datetime
    zone: tzinfo
    rules: tuple[str, ...]
    added: frozenset[datetime] = frozenset()
    excluded: frozenset[datetime] = field(default=frozenset())


class UnsupportedRuleError(Exception):
    """The recurrence rule is invalid, or takes too long to expand."""


def expand(recurrence: Recurrence, *, horizon: datetime) -> list[datetime]:
    """Return the first MAX_OCCURRENCES + 1 starts until the horizon.

    Raises ``UnsupportedRuleError``.
    """
    rules = recurrence.rules
    if len(rules) > MAX_RULES or any(len(rule) > RULE_MAX_CHARS for rule in rules):
        raise UnsupportedRuleError
    starts = {recurrence.start.replace(tzinfo=recurrence.zone)} | recurrence.added
    for rule in rules:
        starts.update(_expand_rule(rule, recurrence, horizon))
    return sorted(starts - recurrence.excluded, key=_in_utc)[: MAX_OCCURRENCES + 1]


def _expand_rule(rule: str, recurrence: Recurrence, horizon: datetime) -> Iterator[datetime]:
    if _TOO_FREQUENT.search(rule) or recurrence.start.year < FIRST_YEAR:
        raise UnsupportedRuleError
    parts = dict(pair.split("=", 1) for pair in rule.upper().split(";") if "=" in pair)
    _require_supported(parts)
    if _never_occurs(parts):
        return iter(())
    bounds = {name.upper(): value for name, value in _BOUND.findall(rule)}
    last = _last(bounds.get("UNTIL"), recurrence.zone, horizon)
    unbounded = _BOUND.sub("", rule).strip(";")
    until = last.astimezone(recurrence.zone).replace(tzinfo=None)
    try:
        count = int(bounds["COUNT"]) if "COUNT" in bounds else MAX_OCCURRENCES + 1
        rule_set = rrulestr(f"{unbounded};UNTIL={until:%Y%m%dT%H%M%S}", dtstart=recurrence.start)
        starts = list(islice(rule_set, max(0, min(count, MAX_OCCURRENCES + 1))))
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise UnsupportedRuleError from error
    return (start.replace(tzinfo=recurrence.zone) for start in starts)


def _require_supported(parts: dict[str, str]) -> None:
    """Raise ``UnsupportedRuleError`` for rules that RFC 5545 does not define or that are too slow.

    dateutil searches until the year 9999, and expands every combination of times of a day.
    """
    year_parts = parts.keys() & {"BYWEEKNO", "BYYEARDAY"}
    if "BYEASTER" in parts or (year_parts and parts.get("FREQ") != "YEARLY"):
        raise UnsupportedRuleError
    counts = [parts.get(name, "").count(",") + 1 for name in ("BYHOUR", "BYMINUTE", "BYSECOND")]
    if prod(counts) > MAX_TIMES_PER_DAY:
        raise UnsupportedRuleError


def _never_occurs(parts: dict[str, str]) -> bool:
    """Return whether no month has the days of a rule; dateutil would search until 9999."""
    try:
        days = [abs(int(day)) for day in parts.get("BYMONTHDAY", "").split(",") if day]
        months = [int(month) for month in parts.get("BYMONTH", "").split(",") if month]
        max_days = max(MAX_DAYS[month] for month in months or MAX_DAYS)
    except (ValueError, KeyError) as error:
        raise UnsupportedRuleError from error
    if "BYSETPOS" in parts and parts.get("FREQ") == "DAILY":
        raise UnsupportedRuleError
    return bool(days) and min(days) > max_days


def _last(until: str | None, zone: tzinfo, horizon: datetime) -> datetime:
    """Return the time after which no occurrence starts."""
    if until is None:
        return horizon
    for date_format, until_zone in (("%Y%m%dT%H%M%SZ", UTC), ("%Y%m%dT%H%M%S", zone)):
        try:
            return min(horizon, datetime.strptime(until, date_format).replace(tzinfo=until_zone))
        except ValueError:
            continue
    try:
        day = datetime.strptime(until[:8], "%Y%m%d")  # noqa: DTZ007 - the zone follows
    except ValueError as error:
        raise UnsupportedRuleError from error
    return min(horizon, day.replace(hour=23, minute=59, second=59, tzinfo=zone))


def _in_utc(time: datetime) -> datetime:
    return time.astimezone(UTC)


_MAX_NAME_PARTS = 3
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])([01]?\d|2[0-3]):?([0-5]\d)?")


class TimeZones:
    """Time zones by TZID: IANA zones first, then those that the calendar defines.

    ``floating`` is the zone of times without a zone.
    """

    def __init__(self, definitions: Mapping[str, bytes], *, floating: tzinfo) -> None:
        self.floating = floating
        self._definitions = definitions
        self._cache: dict[str, tzinfo | None] = {}

    def get(self, name: str) -> tzinfo | None:
        if name not in self._cache:
            self._cache[name] = _iana_zone(name) or _offset_zone(name) or self._defined_zone(name)
        return self._cache[name]

    def _defined_zone(self, name: str) -> tzinfo | None:
        text = self._definitions.get(name)
        if text is None:
            return None
        try:
            zone = Timezone.from_ical(text)
            return zone.to_tz(lookup_tzid=False) if isinstance(zone, Timezone) else None
        except Exception:  # noqa: BLE001 - the parser raises arbitrary errors on invalid definitions
            return None


def build_time_zones(components: list[Component], *, floating: tzinfo) -> TimeZones:
    definitions = {
        name: component.text
        for component in components
        if component.text is not None and (name := property_value(component.text, "TZID"))
    }
    return TimeZones(definitions, floating=floating)


def _iana_zone(name: str) -> tzinfo | None:
    """Resolve IANA names, Windows names, and IANA names after a path as some programs write."""
    name = WINDOWS_TO_OLSON.get(name, name)
    parts = name.strip("/").split("/")
    for start in range(max(0, len(parts) - _MAX_NAME_PARTS), len(parts)):
        try:
            return ZoneInfo("/".join(parts[start:]))
        except (KeyError, ValueError, OSError):
            continue
    return None


def _offset_zone(name: str) -> tzinfo | None:
    """Resolve offsets such as ``UTC+02:00``."""
    match = _OFFSET.fullmatch(name)
    if match is None:
        return None
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    return timezone(timedelta(minutes=minutes if match[1] == "+" else -minutes))


def to_aware(time: date, *, zone: tzinfo) -> datetime:
    """Return a time with a zone; a date becomes its midnight."""
    if not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day)  # noqa: DTZ001 - the zone follows
    return time if time.tzinfo is not None else time.replace(tzinfo=zone)
