"""Generate weekly, yearly and occasional calendar events."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from demo import clock, people, shapes
from demo.rng import Rng
from demo.words import TemplateFiller

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.shapes import Record

FIRST_WORK_DAY = date(2023, 4, 4)


def records() -> Iterator[Record]:
    texts = people.load_toml("texts/calendar.toml")
    travel_days = _travel_days(texts["stay"])
    for entry in texts["weekly"]:
        yield from _weekly(entry, travel_days=travel_days)
    for entry in texts["yearly"]:
        yield from _yearly(entry)
    for entry in texts["stay"]:
        yield _stay(entry)
    for day in clock.days():
        if day not in travel_days:
            yield from _occasional(day, texts=texts)


def _travel_days(stays: list[Record]) -> frozenset[date]:
    return frozenset(
        entry["starts"] + timedelta(days=step) for entry in stays for step in range(entry["days"])
    )


def _weekly(entry: Record, *, travel_days: frozenset[date]) -> Iterator[Record]:
    first = entry["from"] + timedelta(days=(entry["weekday"] - entry["from"].weekday()) % 7)
    for day in clock.days(first, last=entry.get("until", clock.LAST_DAY)):
        weeks, rest = divmod((day - first).days, 7)
        if rest or weeks % entry.get("every", 1) or day in travel_days:
            continue
        starts = clock.local(day, hour=entry["hour"], minute=entry.get("minute", 0))
        yield shapes.event(
            f"weekly/{entry['name']}/{day}",
            calendar=entry["calendar"],
            title=entry["title"],
            starts=starts,
            ends=starts + timedelta(minutes=entry["minutes"]),
            location=entry.get("location"),
            organizer=entry.get("organizer", "Ida Falkner"),
            status="cancelled" if Rng(f"held/{entry['name']}/{day}").chance(4) else "confirmed",
        )


def _yearly(entry: Record) -> Iterator[Record]:
    for year in range(entry.get("since", 2022), 2027):
        day = date(year, entry["month"], entry["day"])
        if clock.FIRST_DAY <= day <= clock.LAST_DAY:
            yield _all_day(f"yearly/{entry['name']}/{year}", day=day, title=entry["title"])


def _stay(entry: Record) -> Record:
    return _all_day(
        f"stay/{entry['starts']}",
        day=entry["starts"],
        days=entry["days"],
        title=entry["title"],
        calendar=entry.get("calendar", "family"),
        location=entry.get("location"),
    )


def _all_day(
    name: str,
    *,
    day: date,
    title: str,
    days: int = 1,
    calendar: str = "family",
    location: str | None = None,
) -> Record:
    starts = clock.local(day, hour=0)
    ends: datetime = starts + timedelta(days=days)
    return shapes.event(
        name,
        calendar=calendar,
        title=title,
        starts=starts,
        ends=ends,
        location=location,
        all_day=True,
    )


def _occasional(day: date, *, texts: Record) -> Iterator[Record]:
    rng = Rng(f"occasional/{day}")
    city = clock.city(day)
    if rng.chance(31):
        hour = rng.between(17, 20) if day.weekday() < 5 else rng.between(10, 19)
        yield _templated_event(day, kind=city, calendar="personal", hour=hour, texts=texts, rng=rng)
    if day >= FIRST_WORK_DAY and day.weekday() < 5 and rng.chance(26):
        hour = rng.between(9, 16)
        yield _templated_event(day, kind="work", calendar="work", hour=hour, texts=texts, rng=rng)


def _templated_event(
    day: date, *, kind: str, calendar: str, hour: int, texts: Record, rng: Rng
) -> Record:
    filler = TemplateFiller(lang="en", today=day, rng=rng, slots=texts["slots"][kind])
    title = filler.fill(rng.pick(texts["occasional"][kind]))
    starts = clock.local(day, hour=hour, minute=rng.pick([0, 0, 15, 30]))
    return shapes.event(
        f"occasional/{kind}/{day}",
        calendar=calendar,
        title=title,
        starts=starts,
        ends=starts + timedelta(minutes=rng.pick([30, 60, 90, 120])),
        location=filler.values.get("place"),
        status=rng.pick(["confirmed"] * 9 + ["tentative", "cancelled"]),
    )
