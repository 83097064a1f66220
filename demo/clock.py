"""The city where Ida lives on a day, and its local time.

Computes offsets itself, because time zone databases differ between machines.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_DAY = date(2022, 11, 1)
LAST_DAY = date(2026, 10, 31)
MOVED_TO_LYON = date(2024, 7, 1)
MOVED_TO_OSAKA = date(2025, 9, 1)


def city(day: date) -> str:
    if day < MOVED_TO_LYON:
        return "hamburg"
    return "lyon" if day < MOVED_TO_OSAKA else "osaka"


def days(first: date = FIRST_DAY, *, last: date = LAST_DAY) -> Iterator[date]:
    for step in range((last - first).days + 1):
        yield first + timedelta(days=step)


def _last_sunday(year: int, *, month: int) -> date:
    end = date(year, month, 31)
    return end - timedelta(days=(end.weekday() + 1) % 7)


def zone(day: date) -> timezone:
    """Return the UTC offset at noon of the day, including European summer time."""
    if city(day) == "osaka":
        return timezone(timedelta(hours=9))
    summer = _last_sunday(day.year, month=3) <= day < _last_sunday(day.year, month=10)
    return timezone(timedelta(hours=2 if summer else 1))


def local(day: date, *, hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime.combine(day, time(hour, minute, second), zone(day))


def utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def with_offset(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
