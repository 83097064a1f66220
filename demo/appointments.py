"""What stands in the calendar besides the stories: weekly, yearly and occasional entries."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from demo import cast, clock, shapes
from demo.dice import Dice
from demo.words import Filling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.shapes import Record

FIRST_WORK_DAY = date(2023, 4, 4)


def records() -> Iterator[Record]:
    texts = cast.text_file("texts/calendar.toml")
    away = _days_away(texts["stay"])
    for entry in texts["weekly"]:
        yield from _weekly(entry, away=away)
    for entry in texts["yearly"]:
        yield from _yearly(entry)
    for entry in texts["stay"]:
        yield _stay(entry)
    for day in clock.days():
        if day not in away:
            yield from _occasional(day, texts=texts)


def _days_away(stays: list[Record]) -> frozenset[date]:
    return frozenset(
        entry["starts"] + timedelta(days=step) for entry in stays for step in range(entry["days"])
    )


def _weekly(entry: Record, *, away: frozenset[date]) -> Iterator[Record]:
    first = entry["from"] + timedelta(days=(entry["weekday"] - entry["from"].weekday()) % 7)
    for day in clock.days(first, last=entry.get("until", clock.LAST_DAY)):
        weeks, rest = divmod((day - first).days, 7)
        if rest or weeks % entry.get("every", 1) or day in away:
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
            status="cancelled" if Dice(f"held/{entry['name']}/{day}").chance(4) else "confirmed",
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
    dice = Dice(f"occasional/{day}")
    city = clock.city(day)
    if dice.chance(31):
        hour = dice.between(17, 20) if day.weekday() < 5 else dice.between(10, 19)
        yield _filled(day, kind=city, calendar="personal", hour=hour, texts=texts, dice=dice)
    if day >= FIRST_WORK_DAY and day.weekday() < 5 and dice.chance(26):
        hour = dice.between(9, 16)
        yield _filled(day, kind="work", calendar="work", hour=hour, texts=texts, dice=dice)


def _filled(day: date, *, kind: str, calendar: str, hour: int, texts: Record, dice: Dice) -> Record:
    filling = Filling(lang="en", today=day, dice=dice, slots=texts["slots"][kind])
    title = filling.fill(dice.pick(texts["occasional"][kind]))
    starts = clock.local(day, hour=hour, minute=dice.pick([0, 0, 15, 30]))
    return shapes.event(
        f"occasional/{kind}/{day}",
        calendar=calendar,
        title=title,
        starts=starts,
        ends=starts + timedelta(minutes=dice.pick([30, 60, 90, 120])),
        location=filling.said.get("place"),
        status=dice.pick(["confirmed"] * 9 + ["tentative", "cancelled"]),
    )
