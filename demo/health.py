"""Generate daily steps, sleep, weight and resting heart rate, and workouts for a marathon plan."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from demo import clock, people, shapes
from demo.rng import Rng

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.shapes import Record

WATCH = "Pulse 3"
SCALE = "Bathroom scale"
STEPS_PER_KILOMETER = 1180
# Kilometers of the marathon plan. The stories contain the runs of STORY_RUNS.
LONG_RUNS = {
    date(2024, 12, 29): 16,
    date(2025, 1, 5): 18,
    date(2025, 1, 12): 20,
    date(2025, 1, 19): 14,
    date(2025, 1, 26): 22,
    date(2025, 2, 2): 24,
    date(2025, 2, 9): 26,
    date(2025, 2, 16): 18,
    date(2025, 3, 23): 28,
    date(2025, 3, 30): 21,
    date(2025, 4, 6): 14,
}
STORY_RUNS = {date(2025, 2, 23): 19, date(2025, 3, 16): 32, date(2025, 4, 13): 42}
# Ida's knee hurts: she swims instead of running.
NO_RUNNING = (date(2025, 2, 24), date(2025, 3, 15))
# Sport: minimum and maximum meters, seconds per kilometer, minimum and maximum heart rate.
SPORTS: dict[str, tuple[int, int, int, int, int]] = {
    "run": (5200, 13400, 352, 139, 158),
    "swim": (900, 2200, 1480, 118, 136),
    "ride": (14000, 46000, 168, 112, 134),
    "hike": (8000, 19000, 900, 98, 122),
}


def records() -> Iterator[Record]:
    for day in clock.days():
        yield from _measurements(day)
    yield from _workouts()


def _measurements(day: date) -> Iterator[Record]:
    rng = Rng(f"health/{day}")
    if rng.chance(97) or _planned_kilometers(day):
        steps = rng.bell(2600, 14800) + (2200 if day.weekday() in (1, 3, 6) else 0)
        steps += STEPS_PER_KILOMETER * _planned_kilometers(day)
        at = clock.local(day, hour=23, minute=50)
        yield shapes.measurement("steps", at=at, value=steps, unit="count", device=WATCH)
    if rng.chance(90):
        minutes = rng.bell(330, 545) + (25 if day.weekday() >= 5 else 0)
        at = clock.local(day, hour=7, minute=rng.between(0, 50))
        yield shapes.measurement("sleep", at=at, value=minutes, unit="min", device=WATCH)
    if day.weekday() in (0, 3) and rng.chance(85):
        pulse = rng.bell(52, 63) - _fitness_gain(day)
        at = clock.local(day, hour=6, minute=55)
        yield shapes.measurement("resting_heart_rate", at=at, value=pulse, unit="bpm", device=WATCH)
    if day.weekday() == 0 and rng.chance(88):
        grams = 63_900 - 180 * _fitness_gain(day) + rng.bell(-700, 700)
        at = clock.local(day, hour=7, minute=5) + timedelta(seconds=rng.between(0, 900))
        kilograms = round(grams / 1000, 1)
        yield shapes.measurement("weight", at=at, value=kilograms, unit="kg", device=SCALE)


def _fitness_gain(day: date) -> int:
    """Return how far the marathon training of 2024/25 lowered the heart rate, in beats per minute."""
    months = (day.year - 2024) * 12 + day.month - 10
    return max(0, min(6, months))


def _planned_kilometers(day: date) -> int:
    """Return the kilometers of the marathon plan or the marathon on a day."""
    return {**LONG_RUNS, **STORY_RUNS}.get(day, 0)


def _workouts() -> Iterator[Record]:
    for day in clock.days():
        if day in STORY_RUNS:
            continue
        if day in LONG_RUNS:
            yield _long_run(day)
        elif Rng(f"workout?/{day}").chance(30):
            yield _workout(day)


def _long_run(day: date) -> Record:
    metres = LONG_RUNS[day] * 1000 + Rng(f"long/{day}").between(20, 180)
    return shapes.workout(
        f"long/{day}",
        sport="run",
        starts=clock.local(day, hour=9),
        seconds=metres * 348 // 1000,
        metres=metres,
        pulse=147,
        note=f"Long run, {LONG_RUNS[day]} km of the plan.",
    )


def _workout(day: date) -> Record:
    rng = Rng(f"workout/{day}")
    sport = rng.pick(["run", "run", "run", "run", "swim", "ride", "yoga", "hike"])
    if sport == "run" and NO_RUNNING[0] <= day <= NO_RUNNING[1]:
        sport = "swim"
    hour = rng.pick([6, 7, 18, 19]) if day.weekday() < 5 else rng.between(8, 15)
    starts = clock.local(day, hour=hour, minute=rng.between(0, 59))
    notes = people.load_toml("texts/calendar.toml")["notes"][clock.city(day)]
    note = rng.pick(notes) if sport == "run" and rng.chance(45) else None
    if sport == "yoga":
        return shapes.workout(
            f"{day}", sport=sport, starts=starts, seconds=60 * rng.between(25, 60)
        )
    low, high, pace, low_pulse, high_pulse = SPORTS[sport]
    metres = rng.bell(low, high)
    return shapes.workout(
        f"{day}",
        sport=sport,
        starts=starts,
        seconds=metres * (pace + rng.between(-20, 30)) // 1000,
        metres=metres,
        pulse=rng.bell(low_pulse, high_pulse) if rng.chance(92) else None,
        note=note,
    )
