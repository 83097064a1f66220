"""Everyday conversations in both workspaces, made from the scenes of texts/chat_*.toml."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from demo import cast, clock, shapes
from demo.dice import Dice
from demo.words import Filling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from demo.shapes import Record

LANGUAGES = ("en", "de", "fr", "es", "ja", "zh")
FIRST_WORK_DAY = date(2023, 4, 4)
# How often a channel is chosen on a day, by the city Ida lives in.
_WEIGHTS = {
    "friends": {
        "hamburg": {
            "general": 5,
            "running": 4,
            "kochen": 4,
            "familia": 4,
            "zhongwen": 2,
            "books": 2,
        },
        "lyon": {
            "general": 4,
            "running": 3,
            "kochen": 1,
            "familia": 4,
            "lyon": 6,
            "zhongwen": 4,
            "books": 2,
        },
        "osaka": {"general": 4, "running": 2, "familia": 4, "lyon": 4, "zhongwen": 4, "books": 2},
    },
    "work": {
        "hamburg": {
            "general": 2,
            "localization": 5,
            "release-train": 3,
            "buero-hamburg": 6,
            "random": 2,
            "shanghai": 2,
        },
        "lyon": {
            "general": 2,
            "localization": 5,
            "release-train": 3,
            "bureau-lyon": 6,
            "random": 2,
            "shanghai": 2,
        },
        "osaka": {
            "general": 2,
            "localization": 4,
            "release-train": 3,
            "osaka-office": 7,
            "random": 1,
            "shanghai": 4,
        },
    },
}


@dataclass(frozen=True, kw_only=True)
class Scene:
    lang: str
    lines: tuple[str, ...]
    months: tuple[int, ...]
    slots: Mapping[str, Sequence[str]]
    pool: tuple[str, ...]


def records() -> Iterator[Record]:
    yield from _Workspace("friends").year_after_year(percent_a_day=68)
    yield from _Workspace("work").year_after_year(percent_a_day=118)


class _Workspace:
    """Chooses scenes so that none comes back before all of its channel have been played."""

    def __init__(self, space: str) -> None:
        self.space = space
        self.waiting: dict[str, list[Scene]] = {}
        self.rounds: dict[str, int] = {}

    def year_after_year(self, *, percent_a_day: int) -> Iterator[Record]:
        first = FIRST_WORK_DAY if self.space == "work" else clock.FIRST_DAY
        for day in clock.days(first):
            if self.space == "work" and day.weekday() >= 5:
                continue
            dice = Dice(f"chat/{self.space}/{day}")
            scenes = percent_a_day // 100 + dice.chance(percent_a_day % 100) + dice.chance(12)
            for number in range(scenes):
                weights = _WEIGHTS[self.space][clock.city(day)]
                channel = dice.pick([name for name, often in weights.items() for _ in range(often)])
                scene = self._next(channel, day=day)
                yield from self._played(f"{day}/{number}", scene=scene, channel=channel, day=day)

    def _next(self, channel: str, *, day: date) -> Scene:
        waiting = self.waiting.setdefault(channel, [])
        fitting = [scene for scene in waiting if not scene.months or day.month in scene.months]
        if not fitting:
            played = self.rounds[channel] = self.rounds.get(channel, 0) + 1
            scenes = _scenes(f"{self.space}/{channel}")
            waiting[:] = Dice(f"round/{self.space}/{channel}/{played}").shuffled(scenes)
            fitting = [scene for scene in waiting if not scene.months or day.month in scene.months]
        waiting.remove(fitting[0])
        return fitting[0]

    def _played(self, name: str, *, scene: Scene, channel: str, day: date) -> Iterator[Record]:
        dice = Dice(f"scene/{self.space}/{channel}/{name}")
        actors = _actors(scene, day=day, dice=dice)
        filling = Filling(
            lang=scene.lang,
            today=day,
            dice=dice,
            slots=scene.slots,
            said={"name": cast.first_name(actors["B"])},
            office=self.space == "work",
        )
        early, late = (9, 17) if self.space == "work" else (17, 22)
        at = clock.local(day, hour=dice.between(early, late), minute=dice.between(0, 59))
        threaded = dice.chance(40) and len(scene.lines) > 2
        for number, line in enumerate(scene.lines):
            role, text = line.split(": ", maxsplit=1)
            yield shapes.chat(
                f"scene/{self.space}/{channel}/{name}/{number}",
                space=self.space,
                channel=channel,
                at=at,
                author=actors.get(role, role),
                text=_capital(filling.fill(text)),
                thread=f"scene/{self.space}/{name}" if threaded else None,
                replies=len(scene.lines) - 1 if threaded and number == 0 else 0,
            )
            at += timedelta(seconds=dice.between(25, 540))


def _actors(scene: Scene, *, day: date, dice: Dice) -> dict[str, str]:
    here = [person for person in scene.pool if cast.since(person) <= day]
    chosen = dice.shuffled(here) * 3
    return {"I": "ida", "A": chosen[0], "B": chosen[1], "C": chosen[2]}


def _scenes(channel: str) -> list[Scene]:
    return [
        Scene(
            lang=lang,
            lines=tuple(scene["lines"].strip().splitlines()),
            months=tuple(scene.get("months", ())),
            slots=texts["slots"],
            pool=tuple(texts["pools"][channel]),
        )
        for lang, texts in ((lang, cast.text_file(f"texts/chat_{lang}.toml")) for lang in LANGUAGES)
        for scene in texts["scene"]
        if scene["in"] == channel
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
