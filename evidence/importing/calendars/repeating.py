"""When a repeating event takes place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from itertools import islice
from math import prod

from dateutil.rrule import rrulestr

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
