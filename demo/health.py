"""Steps, sleep, weight and resting pulse of every day, and the ordinary workouts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from demo import clock, shapes, workouts
from demo.dice import Dice

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from demo.shapes import Record

WATCH = "Pulse 3"
SCALE = "Bathroom scale"
STRIDES = 1180


def records() -> Iterator[Record]:
    for day in clock.days():
        yield from _measured(day)


def _measured(day: date) -> Iterator[Record]:
    dice = Dice(f"health/{day}")
    if dice.chance(97) or workouts.kilometres(day):
        steps = dice.bell(2600, 14800) + (2200 if day.weekday() in (1, 3, 6) else 0)
        steps += STRIDES * workouts.kilometres(day)
        at = clock.local(day, hour=23, minute=50)
        yield shapes.measurement("steps", at=at, value=steps, unit="count", device=WATCH)
    if dice.chance(90):
        minutes = dice.bell(330, 545) + (25 if day.weekday() >= 5 else 0)
        at = clock.local(day, hour=7, minute=dice.between(0, 50))
        yield shapes.measurement("sleep", at=at, value=minutes, unit="min", device=WATCH)
    if day.weekday() in (0, 3) and dice.chance(85):
        pulse = dice.bell(52, 63) - _fitter(day)
        at = clock.local(day, hour=6, minute=55)
        yield shapes.measurement("resting_heart_rate", at=at, value=pulse, unit="bpm", device=WATCH)
    if day.weekday() == 0 and dice.chance(88):
        grams = 63_900 - 180 * _fitter(day) + dice.bell(-700, 700)
        at = clock.local(day, hour=7, minute=5) + timedelta(seconds=dice.between(0, 900))
        kilograms = round(grams / 1000, 1)
        yield shapes.measurement("weight", at=at, value=kilograms, unit="kg", device=SCALE)


def _fitter(day: date) -> int:
    """How many beats a minute the marathon training of winter 2024/25 has taken off."""
    months = (day.year - 2024) * 12 + day.month - 10
    return max(0, min(6, months))
