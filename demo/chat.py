"""Generate everyday chat in both workspaces from the scenes of texts/chat_*.toml."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from demo import clock, people, shapes
from demo.rng import Rng
from demo.words import TemplateFiller

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from demo.shapes import Record

LANGUAGES = ("en", "de", "fr", "es", "ja", "zh")
FIRST_WORK_DAY = date(2023, 4, 4)
# Relative frequency of channels by the city where Ida lives.
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
    """A short conversation. `months` restricts it; empty means any month."""

    lang: str
    lines: tuple[str, ...]
    months: tuple[int, ...]
    slots: Mapping[str, Sequence[str]]
    pool: tuple[str, ...]


def records() -> Iterator[Record]:
    yield from _Workspace("friends").records(percent_a_day=68)
    yield from _Workspace("work").records(percent_a_day=118)


class _Workspace:
    """Plays every scene of a channel once before it repeats one."""

    def __init__(self, space: str) -> None:
        self.space = space
        self.unplayed: dict[str, list[Scene]] = {}
        self.rounds: dict[str, int] = {}

    def records(self, *, percent_a_day: int) -> Iterator[Record]:
        first = FIRST_WORK_DAY if self.space == "work" else clock.FIRST_DAY
        for day in clock.days(first):
            if self.space == "work" and day.weekday() >= 5:
                continue
            rng = Rng(f"chat/{self.space}/{day}")
            scenes = percent_a_day // 100 + rng.chance(percent_a_day % 100) + rng.chance(12)
            for number in range(scenes):
                weights = _WEIGHTS[self.space][clock.city(day)]
                channel = rng.pick(
                    [name for name, weight in weights.items() for _ in range(weight)]
                )
                scene = self._next_scene(channel, day=day)
                yield from self._play(f"{day}/{number}", scene=scene, channel=channel, day=day)

    def _next_scene(self, channel: str, *, day: date) -> Scene:
        unplayed = self.unplayed.setdefault(channel, [])
        in_season = [scene for scene in unplayed if not scene.months or day.month in scene.months]
        if not in_season:
            number = self.rounds[channel] = self.rounds.get(channel, 0) + 1
            scenes = _scenes(f"{self.space}/{channel}")
            unplayed[:] = Rng(f"round/{self.space}/{channel}/{number}").shuffled(scenes)
            in_season = [
                scene for scene in unplayed if not scene.months or day.month in scene.months
            ]
        unplayed.remove(in_season[0])
        return in_season[0]

    def _play(self, name: str, *, scene: Scene, channel: str, day: date) -> Iterator[Record]:
        rng = Rng(f"scene/{self.space}/{channel}/{name}")
        actors = _actors(scene, day=day, rng=rng)
        filler = TemplateFiller(
            lang=scene.lang,
            today=day,
            rng=rng,
            slots=scene.slots,
            values={"name": people.first_name(actors["B"])},
            office=self.space == "work",
        )
        early, late = (9, 17) if self.space == "work" else (17, 22)
        at = clock.local(day, hour=rng.between(early, late), minute=rng.between(0, 59))
        threaded = rng.chance(40) and len(scene.lines) > 2
        for number, line in enumerate(scene.lines):
            role, text = line.split(": ", maxsplit=1)
            yield shapes.chat(
                f"scene/{self.space}/{channel}/{name}/{number}",
                space=self.space,
                channel=channel,
                at=at,
                author=actors.get(role, role),
                text=_capitalize(filler.fill(text)),
                thread=f"scene/{self.space}/{name}" if threaded else None,
                replies=len(scene.lines) - 1 if threaded and number == 0 else 0,
            )
            at += timedelta(seconds=rng.between(25, 540))


def _actors(scene: Scene, *, day: date, rng: Rng) -> dict[str, str]:
    present = [person for person in scene.pool if people.since(person) <= day]
    chosen = rng.shuffled(present) * 3
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
        for lang, texts in (
            (lang, people.load_toml(f"texts/chat_{lang}.toml")) for lang in LANGUAGES
        )
        for scene in texts["scene"]
        if scene["in"] == channel
    ]


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
