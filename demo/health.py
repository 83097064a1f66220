"""Generate daily steps, sleep, weight and resting heart rate."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from demo import clock, shapes, workouts
from demo.rng import Rng

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from demo.shapes import Record

WATCH = "Pulse 3"
SCALE = "Bathroom scale"
STEPS_PER_KILOMETER = 1180


def records() -> Iterator[Record]:
    for day in clock.days():
        yield from _measurements(day)


def _measurements(day: date) -> Iterator[Record]:
    rng = Rng(f"health/{day}")
    if rng.chance(97) or workouts.planned_kilometers(day):
        steps = rng.bell(2600, 14800) + (2200 if day.weekday() in (1, 3, 6) else 0)
        steps += STEPS_PER_KILOMETER * workouts.planned_kilometers(day)
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
