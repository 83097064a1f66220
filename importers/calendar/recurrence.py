"""Expand recurrence rules (RRULE, RDATE, EXDATE) within limits, and resolve time zones (TZID, VTIMEZONE).

A calendar file can come from a stranger, and a rule of twenty characters can describe any number
of occurrences. The limits bound the records, the bytes and the computing time that a file causes.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import islice
from math import prod
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr
from icalendar import Timezone
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from importers.core.importer import Options
from importers.core.readers import Component, property_value

SERIES_MAX_OCCURRENCES = 5_000
SERIES_MAX_BYTES = 4 * 1024 * 1024
"""Total size of the occurrences of one series as JSON."""
SERIES_MAX_STEPS = 200_000
FIRST_YEAR = 1900
MAX_DAYS = dict(zip(range(1, 13), (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), strict=True))
DAYS_PER_STEP = {"DAILY": 1, "WEEKLY": 4, "MONTHLY": 15, "YEARLY": 20}
"""Days that dateutil searches in the time of one step, measured for each frequency."""
MAX_RULES = 20
RULE_MAX_CHARS = 500
MAX_TIMES_PER_DAY = 100


@dataclass(slots=True)
class ExpansionLimits:
    """What expansion may still add to a file, or to a run if ``run`` is None.

    ``size`` is in bytes. A step is one occurrence, or one period that the expansion of a rule
    searches.
    """

    occurrences: int
    size: int
    steps: int
    run: "ExpansionLimits | None" = None

    def subtract(self, *, occurrences: int = 0, size: int = 0, steps: int = 0) -> None:
        """Subtract the cost of a series from these limits and those of the run."""
        self.occurrences = max(0, self.occurrences - occurrences)
        self.size = max(0, self.size - size)
        self.steps = max(0, self.steps - steps)
        if self.run is not None:
            self.run.subtract(occurrences=occurrences, size=size, steps=steps)

    def per_series(self) -> "ExpansionLimits":
        """Return the limits of the next series."""
        run = self.run or self
        return ExpansionLimits(
            occurrences=min(SERIES_MAX_OCCURRENCES, self.occurrences, run.occurrences),
            size=min(SERIES_MAX_BYTES, self.size, run.size),
            steps=min(SERIES_MAX_STEPS, self.steps, run.steps),
        )


def limits_per_run() -> ExpansionLimits:
    return ExpansionLimits(occurrences=200_000, size=128 * 1024 * 1024, steps=8_000_000)


def limits_per_file(run: ExpansionLimits) -> ExpansionLimits:
    return ExpansionLimits(occurrences=50_000, size=32 * 1024 * 1024, steps=2_000_000, run=run)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The rules of an event, with ``start`` in local time of ``zone``, as rules are."""

    start: datetime
    zone: tzinfo
    rules: tuple[str, ...]
    added: frozenset[datetime] = frozenset()
    excluded: frozenset[datetime] = frozenset()
    excluded_days: frozenset[date] = frozenset()
    is_all_day: bool = False


class UnsupportedRuleError(Exception):
    """The recurrence rule is invalid, or takes too long to expand."""


@dataclass(frozen=True, slots=True)
class Window:
    """The period in which recurring events are expanded.

    When a limit applies, the occurrences closest to ``today`` are imported.
    """

    first: datetime
    today: datetime
    last: datetime

    @classmethod
    def from_options(cls, options: Options) -> "Window":
        return cls(
            first=datetime(options.first_year, 1, 1, tzinfo=UTC),
            today=datetime(options.current_year, 7, 1, tzinfo=UTC),
            last=datetime(options.horizon_year, 12, 31, 23, 59, 59, tzinfo=UTC),
        )


@dataclass(slots=True)
class Expansion:
    """The starts of the occurrences of a series, in order.

    - ``starts`` are the first start of the series and all starts within the window.
    - ``earlier`` are the other starts before the window.
    - ``has_later``: the series has starts after the window.
    - ``is_truncated``: the limit of steps ended the expansion early.
    - ``steps`` is the cost of the expansion.
    """

    starts: list[datetime]
    earlier: list[datetime]
    has_later: bool
    is_truncated: bool
    steps: int

    def closest_starts(self, today: datetime, *, max_count: int) -> list[datetime]:
        """Return the first start and the starts closest to today, in order."""
        closest = sorted(self.starts[1:], key=lambda start: abs(start - today))
        return self.starts[:1] + sorted(closest[: max_count - 1], key=_in_utc)

    def describe_skipped(self, window: Window) -> str:
        """Return the dates outside the window for a receipt, or an empty string."""
        parts = []
        if self.earlier:
            first, last = self.earlier[0], self.earlier[-1]
            parts.append(f"{len(self.earlier):,} from {first:%Y-%m-%d} to {last:%Y-%m-%d}")
        if self.has_later:
            parts.append(f"all after {window.last:%Y-%m-%d}")
        return ", ".join(parts)


def expand(recurrence: Recurrence, *, window: Window, max_steps: int) -> Expansion:
    """Expand a series within a window. Raises ``UnsupportedRuleError``."""
    rules = recurrence.rules
    if len(rules) > MAX_RULES or any(len(rule) > RULE_MAX_CHARS for rule in rules):
        raise UnsupportedRuleError
    found = {recurrence.start.replace(tzinfo=recurrence.zone)} | recurrence.added
    has_later = is_truncated = False
    steps = len(recurrence.added)
    for text in rules:
        rule = _Rule.parse(text, recurrence, window.last)
        steps += rule.search_steps
        rule_starts = rule.expand(max_count=max(0, max_steps - steps))
        if steps + len(rule_starts) >= max_steps and (later := rule.skip_to(window.first)) != rule:
            rule_starts = rule_starts[:1] + later.expand(max_count=max_steps // 2)
        found.update(start.replace(tzinfo=recurrence.zone) for start in rule_starts)
        steps += len(rule_starts)
        is_truncated = is_truncated or steps >= max_steps
        has_later = has_later or rule.has_later(len(rule_starts))
    # EXDATE names a start, or its day in the zone of the series.
    excluded_days = recurrence.excluded_days
    kept = (start for start in found - recurrence.excluded
            if start.astimezone(recurrence.zone).date() not in excluded_days)  # fmt: skip
    starts = sorted(kept, key=_in_utc)
    return Expansion(
        starts=starts[:1] + [start for start in starts[1:] if window.first <= start <= window.last],
        earlier=[start for start in starts[1:] if start < window.first],
        has_later=has_later or any(start > window.last for start in starts[1:]),
        is_truncated=is_truncated,
        steps=steps,
    )


@dataclass(frozen=True, slots=True)
class _Rule:
    """A supported rule.

    ``parts`` are those without UNTIL and COUNT. ``start`` and ``until`` are in local time without a
    zone, and ``until`` is at most the end of the window. ``exceeds_window``: no UNTIL ends the rule
    within the window.
    """

    parts: Mapping[str, str]
    start: datetime
    until: datetime
    count: int | None
    exceeds_window: bool
    search_steps: int

    @classmethod
    def parse(cls, text: str, recurrence: Recurrence, horizon: datetime) -> "_Rule":
        """Parse a rule. Raises ``UnsupportedRuleError``."""
        try:
            parts = dict(pair.split("=", 1) for pair in text.upper().strip(";").split(";"))
            if int(parts.get("INTERVAL", "1")) < 1:  # dateutil would never end
                del parts["INTERVAL"]
            # Some phones write a COUNT of -1 for series without an end.
            count = max(0, int(parts.pop("COUNT", "0"))) or None
            last = _parse_until(parts.pop("UNTIL", None), recurrence)
            never_occurs = _never_occurs(parts)
        except (ValueError, KeyError) as error:
            raise UnsupportedRuleError from error
        if recurrence.start.year < FIRST_YEAR or not _is_supported(parts):
            raise UnsupportedRuleError
        until = min(last or horizon, horizon).astimezone(recurrence.zone).replace(tzinfo=None)
        return cls(
            parts=parts,
            start=recurrence.start,
            until=recurrence.start - timedelta(days=1) if never_occurs else until,
            count=count,
            exceeds_window=not never_occurs and (last is None or last > horizon),
            search_steps=max(0, (until - recurrence.start).days) // DAYS_PER_STEP[parts["FREQ"]],
        )

    def expand(self, *, max_count: int) -> list[datetime]:
        """Return the first starts in local time. Raises ``UnsupportedRuleError``."""
        if self.until < self.start:
            return []
        count = max_count if self.count is None else min(max_count, self.count)
        parts = {**self.parts, "UNTIL": f"{self.until:%Y%m%dT%H%M%S}"}
        try:
            rule = ";".join(f"{name}={value}" for name, value in parts.items())
            return list(islice(rrulestr(rule, dtstart=self.start), count))
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise UnsupportedRuleError from error

    def skip_to(self, first: datetime) -> "_Rule":
        """Return a rule that begins shortly before ``first``, or itself where counting is needed."""
        days = {"DAILY": 1, "WEEKLY": 7}.get(self.parts["FREQ"])
        late = first.replace(tzinfo=None) - timedelta(days=7) - self.start
        if days is None or self.count is not None or late < timedelta():
            return self
        period = timedelta(days=days * int(self.parts.get("INTERVAL", "1")))
        return replace(self, start=self.start + late // period * period)

    def has_later(self, found_count: int) -> bool:
        """Return whether the rule has starts after the window, given the number of its starts in the window."""
        return self.exceeds_window and (self.count is None or found_count < self.count)


def _is_supported(parts: Mapping[str, str]) -> bool:
    """Return whether RFC 5545 defines a rule, and dateutil expands it in reasonable time.

    dateutil searches until the year 9999, and expands every combination of times of a day.
    """
    frequency = parts.get("FREQ", "")
    counts = [parts.get(name, "").count(",") + 1 for name in ("BYHOUR", "BYMINUTE", "BYSECOND")]
    return (
        frequency in DAYS_PER_STEP
        and "BYEASTER" not in parts
        and (frequency == "YEARLY" or not parts.keys() & {"BYWEEKNO", "BYYEARDAY"})
        and not (frequency == "DAILY" and "BYSETPOS" in parts)
        and prod(counts) <= MAX_TIMES_PER_DAY
    )


def _never_occurs(parts: Mapping[str, str]) -> bool:
    """Return whether no month has the days of a rule; dateutil would search until 9999."""
    days = [abs(int(day)) for day in parts.get("BYMONTHDAY", "").split(",") if day]
    months = [int(month) for month in parts.get("BYMONTH", "").split(",") if month]
    return bool(days) and min(days) > max(MAX_DAYS[month] for month in months or MAX_DAYS)


def _parse_until(until: str | None, recurrence: Recurrence) -> datetime | None:
    """Return the time after which no occurrence starts. Raises ``ValueError``."""
    if until is None:
        return None
    zone = recurrence.zone
    for date_format, until_zone in (("%Y%m%dT%H%M%SZ", UTC), ("%Y%m%dT%H%M%S", zone)):
        try:
            time = datetime.strptime(until, date_format).replace(tzinfo=until_zone)
        except ValueError:
            continue
        local, is_in_utc = time.astimezone(zone), date_format.endswith("Z")
        is_sure = (local.hour, local.minute) in ((0, 0), (23, 59))
        if is_sure or not (is_in_utc and recurrence.is_all_day):
            return time
        # Exchange writes the midnight of the last day in UTC: that of New Zealand is at 11 of the
        # day before, that of Hawaii at 10 of the day itself.
        is_midnight = time.minute % 15 == time.second == 0
        until = f"{time + timedelta(hours=13 * is_midnight):%Y%m%d}"
        break
    day = datetime.strptime(until[:8], "%Y%m%d")  # noqa: DTZ007 - the zone follows
    return day.replace(hour=23, minute=59, second=59, tzinfo=zone)


def _in_utc(time: datetime) -> datetime:
    return time.astimezone(UTC)


_MAX_NAME_PARTS = 3
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])([01]?\d|2[0-3]):?([0-5]\d)?")


class TimeZones:
    """Time zones by TZID: IANA zones first, then those that the calendar defines.

    ``floating`` is the zone of times without a zone.
    """

    def __init__(self, components: Iterable[Component], *, floating: tzinfo) -> None:
        self.floating = floating
        self._cache: dict[str, tzinfo | None] = {}
        self._definitions = {
            re.sub(r"\\([,;\\])", r"\1", name): component.text
            for component in components
            if component.text is not None and (name := property_value(component.text, "TZID"))
        }

    def get(self, name: str) -> tzinfo | None:
        if name not in self._cache:
            # What a calendar defines counts more than a part of its name, such as My office/EST.
            self._cache[name] = (
                _iana_zone(WINDOWS_TO_OLSON.get(name, name))
                or _offset_zone(name)
                or (None if name.startswith("/") else self._defined_zone(name))
                or _zone_after_path(name)
                or self._defined_zone(name)
            )
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


def _iana_zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _zone_after_path(name: str) -> tzinfo | None:
    """Resolve an IANA name after a path, as some programs write."""
    parts = name.strip("/").split("/")
    starts = range(max(0, len(parts) - _MAX_NAME_PARTS), len(parts))
    return next(filter(None, (_iana_zone("/".join(parts[start:])) for start in starts)), None)


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
