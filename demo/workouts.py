"""Runs, swims and the rest; the long Sunday runs of the marathon plan are written out."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from demo import cast, clock, shapes
from demo.dice import Dice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.shapes import Record

# The plan that Kofi made: Sunday and kilometres. The stories hold 23 February, 16 March and 13 April.
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
TOLD = {date(2025, 2, 23): 19, date(2025, 3, 16): 32, date(2025, 4, 13): 42}
# With the painful knee, Ida swam and did not run.
NO_RUNNING = (date(2025, 2, 24), date(2025, 3, 15))
# sport: (metres low, high, seconds for a kilometre, pulse low, high)
SPORTS: dict[str, tuple[int, int, int, int, int]] = {
    "run": (5200, 13400, 352, 139, 158),
    "swim": (900, 2200, 1480, 118, 136),
    "ride": (14000, 46000, 168, 112, 134),
    "hike": (8000, 19000, 900, 98, 122),
}


def kilometres(day: date) -> int:
    """How far the marathon and its plan went on the day."""
    return {**LONG_RUNS, **TOLD}.get(day, 0)


def records() -> Iterator[Record]:
    for day in clock.days():
        if day in TOLD:
            continue
        if day in LONG_RUNS:
            yield _long_run(day)
        elif Dice(f"workout?/{day}").chance(30):
            yield _workout(day)


def _long_run(day: date) -> Record:
    metres = LONG_RUNS[day] * 1000 + Dice(f"long/{day}").between(20, 180)
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
    dice = Dice(f"workout/{day}")
    sport = dice.pick(["run", "run", "run", "run", "swim", "ride", "yoga", "hike"])
    if sport == "run" and NO_RUNNING[0] <= day <= NO_RUNNING[1]:
        sport = "swim"
    hour = dice.pick([6, 7, 18, 19]) if day.weekday() < 5 else dice.between(8, 15)
    starts = clock.local(day, hour=hour, minute=dice.between(0, 59))
    notes = cast.text_file("texts/calendar.toml")["notes"][clock.city(day)]
    note = dice.pick(notes) if sport == "run" and dice.chance(45) else None
    if sport == "yoga":
        return shapes.workout(
            f"{day}", sport=sport, starts=starts, seconds=60 * dice.between(25, 60)
        )
    low, high, pace, slow, fast = SPORTS[sport]
    metres = dice.bell(low, high)
    return shapes.workout(
        f"{day}",
        sport=sport,
        starts=starts,
        seconds=metres * (pace + dice.between(-20, 30)) // 1000,
        metres=metres,
        pulse=dice.bell(slow, fast) if dice.chance(92) else None,
        note=note,
    )
