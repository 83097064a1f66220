"""When a repeating event takes place."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import islice
from math import prod
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr
from icalendar import Timezone
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from importers.core.importer import Options
from importers.core.streaming import Component, value

FIRST_YEAR = 1900
LONGEST = dict(zip(range(1, 13), (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), strict=True))
DAYS_PER_STEP = {"DAILY": 1, "WEEKLY": 4, "MONTHLY": 15, "YEARLY": 20}
"""Days that a rule searches for the price of one step, by measurement."""
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


@dataclass(frozen=True, slots=True)
class Window:
    """The period in which a series is expanded. `today` decides which occurrences matter most."""

    first: datetime
    today: datetime
    last: datetime

    @classmethod
    def of(cls, options: Options) -> "Window":
        return cls(
            first=datetime(options.first_year, 1, 1, tzinfo=UTC),
            today=datetime(options.current_year, 7, 1, tzinfo=UTC),
            last=datetime(options.horizon_year, 12, 31, 23, 59, 59, tzinfo=UTC),
        )


@dataclass(slots=True)
class Expansion:
    """The occurrences of a series, in order.

    `starts` are the first occurrence of all and those within the window. `before` are the other
    occurrences before the window; `goes_on` says whether the series has some after it. `is_cut`
    says that the limit of steps ended the expansion early.
    """

    starts: list[datetime]
    before: list[datetime]
    goes_on: bool
    is_cut: bool
    steps: int

    def nearest(self, today: datetime, *, most: int) -> list[datetime]:
        """Return the first start and those closest to today, in order."""
        closest = sorted(self.starts[1:], key=lambda start: abs(start - today))
        return self.starts[:1] + sorted(closest[: most - 1], key=_in_utc)

    def outside(self, window: Window) -> str:
        """Return the dates that the window leaves out, for a receipt; empty if there are none."""
        parts = []
        if self.before:
            first, last = self.before[0], self.before[-1]
            parts.append(f"{len(self.before):,} from {first:%Y-%m-%d} to {last:%Y-%m-%d}")
        if self.goes_on:
            parts.append(f"all after {window.last:%Y-%m-%d}")
        return ", ".join(parts)


def occurrences(repetition: Repetition, *, window: Window, steps: int) -> Expansion:
    """Expand a series within a window, in at most `steps` steps. Raises ``NoRuleError``."""
    if len(repetition.rules) > RULES or any(len(rule) > RULE_CHARS for rule in repetition.rules):
        raise NoRuleError
    rules = [_Rule.parsed(rule, repetition, window.last) for rule in repetition.rules]
    found = {repetition.start.replace(tzinfo=repetition.zone)} | repetition.extra
    goes_on = is_cut = False
    spent = len(repetition.extra)
    for rule in rules:
        spent += rule.search_steps
        moments = rule.moments(most=max(0, steps - spent))
        found.update(moment.replace(tzinfo=repetition.zone) for moment in moments)
        spent += len(moments)
        is_cut = is_cut or spent >= steps
        goes_on = goes_on or rule.goes_on(len(moments))
    times = sorted(found - repetition.left_out, key=_in_utc)
    within = [each for each in times[1:] if window.first <= each <= window.last]
    return Expansion(
        starts=times[:1] + within,
        before=[each for each in times[1:] if each < window.first],
        goes_on=goes_on or any(each > window.last for each in times[1:]),
        is_cut=is_cut,
        steps=spent,
    )


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule that was checked; `end` is local, without a zone."""

    bare: str
    start: datetime
    end: datetime
    count: int | None
    is_open: bool
    search_steps: int

    @classmethod
    def parsed(cls, rule: str, repetition: Repetition, horizon: datetime) -> "_Rule":
        """Raises ``NoRuleError``."""
        if _TOO_FINE.search(rule) or repetition.start.year < FIRST_YEAR:
            raise NoRuleError
        parts = dict(pair.split("=", 1) for pair in rule.upper().split(";") if "=" in pair)
        _require_plain(parts)
        bounds = {name.upper(): value for name, value in _BOUND.findall(rule)}
        last = _last(bounds.get("UNTIL"), repetition.zone)
        end = min(last or horizon, horizon).astimezone(repetition.zone).replace(tzinfo=None)
        days = max(timedelta(), end - repetition.start).days
        return cls(
            bare=_BOUND.sub("", rule).strip(";"),
            start=repetition.start,
            end=repetition.start - timedelta(days=1) if _never(parts) else end,
            count=_count(bounds.get("COUNT")),
            is_open=not _never(parts) and (last is None or last > horizon),
            search_steps=days // DAYS_PER_STEP.get(parts.get("FREQ", ""), 1),
        )

    def moments(self, *, most: int) -> list[datetime]:
        """Return at most `most` occurrences up to the end. Raises ``NoRuleError``."""
        if self.end < self.start:
            return []
        try:
            rule_set = rrulestr(f"{self.bare};UNTIL={self.end:%Y%m%dT%H%M%S}", dtstart=self.start)
            return list(islice(rule_set, most if self.count is None else min(most, self.count)))
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise NoRuleError from error

    def goes_on(self, found: int) -> bool:
        """Return whether the rule has occurrences after the window."""
        return self.is_open and (self.count is None or found < self.count)


def _count(stated: str | None) -> int | None:
    try:
        return None if stated is None else max(0, int(stated))
    except ValueError as error:
        raise NoRuleError from error


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


def _last(until: str | None, zone: tzinfo) -> datetime | None:
    if until is None:
        return None
    for form, stated_zone in (("%Y%m%dT%H%M%SZ", UTC), ("%Y%m%dT%H%M%S", zone)):
        try:
            return datetime.strptime(until, form).replace(tzinfo=stated_zone)
        except ValueError:
            continue
    try:
        day = datetime.strptime(until[:8], "%Y%m%d")  # noqa: DTZ007 - the zone follows
    except ValueError as error:
        raise NoRuleError from error
    return day.replace(hour=23, minute=59, second=59, tzinfo=zone)


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
