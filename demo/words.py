"""Fill the slots of text templates from lists, dates and numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from demo.rng import Rng

VERSION_3_EPOCH = date(2022, 12, 27)
FIRST_TICKET = date(2023, 4, 3)
_SLOT = re.compile(r"\{(\w+)\}")
_WEEKDAYS = {
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "es": "lunes martes miércoles jueves viernes sábado domingo",
    "ja": "月曜日 火曜日 水曜日 木曜日 金曜日 土曜日 日曜日",
    "zh": "星期一 星期二 星期三 星期四 星期五 星期六 星期天",
}
_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio"
    " julio agosto septiembre octubre noviembre diciembre",
}
_DAYS = {
    "en": "{day} {month}",
    "de": "{day}. {month}",
    "fr": "{day} {month}",
    "es": "{day} de {month}",
    "ja": "{number}月{day}日",
    "zh": "{number}月{day}日",
}


def weekday(day: date, *, lang: str) -> str:
    return _WEEKDAYS[lang].split()[day.weekday()]


def month(day: date, *, lang: str) -> str:
    if lang in ("ja", "zh"):
        return f"{day.month}月"
    return _MONTHS[lang].split()[day.month - 1]


def day_and_month(day: date, *, lang: str) -> str:
    return _DAYS[lang].format(day=day.day, month=month(day, lang=lang), number=day.month)


def full_date(day: date, *, lang: str) -> str:
    if lang in ("ja", "zh"):
        return f"{day.year}年{day.month}月{day.day}日"
    joint = " de " if lang == "es" else " "
    return f"{day_and_month(day, lang=lang)}{joint}{day.year}"


def version(day: date) -> str:
    """Return the map version that is next on a day: a release every 90 days, 4.2 on 12 March 2026."""
    number = (day - VERSION_3_EPOCH).days // 90
    return f"{3 + number // 10}.{number % 10}"


def clock_time(hour: int, *, minute: int, lang: str) -> str:
    if lang == "fr":
        return f"{hour} h {minute:02}" if minute else f"{hour} h"
    if lang == "ja":
        return f"{hour}時{minute}分" if minute else f"{hour}時"
    if lang == "zh":
        return f"{hour}点{minute}分" if minute else f"{hour}点"
    return f"{hour}:{minute:02}"


def money(cents: int, *, lang: str) -> str:
    """Format euro cents for a language: €1,204.50 or 1.204,50 €."""
    whole, rest = divmod(abs(cents), 100)
    english = f"{whole:,}.{rest:02}"
    if lang in ("en", "ja", "zh"):
        return f"€{english}"
    separator = " " if lang == "fr" else "."
    return english.replace(",", separator)[:-3] + f",{rest:02} €"


@dataclass(kw_only=True)
class TemplateFiller:
    """Fills the templates of one conversation, in which each slot keeps its value."""

    lang: str
    today: date
    rng: Rng
    slots: Mapping[str, Sequence[str]]
    values: dict[str, str] = field(default_factory=dict)
    # Shared between the fillers of one template: uses every value once before it repeats one.
    used_values: list[str] = field(default_factory=list)
    # Office dates avoid weekends.
    office: bool = False
    own_values: list[str] = field(default_factory=list)

    def fill(self, template: str) -> str:
        return _SLOT.sub(lambda slot: self._value(slot[1]), template)

    def _value(self, name: str) -> str:
        if name not in self.values:
            kind = name.rstrip("0123456789")
            self.values[name] = (
                self._from_list(kind) if kind in self.slots else self._computed_value(name)
            )
        return self.values[name]

    def _from_list(self, kind: str) -> str:
        """Pick a value that was not used recently. Values can contain slots."""
        values = self.slots[kind]
        unused = [value for value in values if value not in self.used_values]
        if not unused:
            self.used_values[:] = [value for value in self.used_values if value not in values]
            unused = [value for value in values if value not in self.own_values] or list(values)
        value = self.rng.pick(unused)
        self.used_values.append(value)
        self.own_values.append(value)
        return self.fill(value)

    def _computed_value(self, name: str) -> str:
        """Compute the value of a slot for a date, a time or a number."""
        rng, lang = self.rng, self.lang
        kind = name.rstrip("0123456789")
        soon = self.today + timedelta(days=rng.between(1, 6))
        if kind == "weekday":
            rest = soon.weekday() - 4 if self.office else 0
            return weekday(soon - timedelta(days=max(0, rest)), lang=lang)
        if kind == "weekend":
            return weekday(soon + timedelta(days=rng.pick([5, 6]) - soon.weekday()), lang=lang)
        if kind == "version":
            return version(self.today)
        if kind == "ticket":
            return str(1204 + (self.today - FIRST_TICKET).days * 1087 // 1058)
        if kind == "day":
            first, last = (4, 13) if name == kind else (14, 26)
            later = self.today + timedelta(days=rng.between(first, last))
            return day_and_month(later, lang=lang)
        if kind == "month":
            return month(self.today + timedelta(days=31), lang=lang)
        if kind in _HOURS:
            first, last = _HOURS[kind]
            minute = rng.pick([0, 15, 30, 30, 45])
            return clock_time(rng.between(first, last), minute=minute, lang=lang)
        if kind == "euro":
            return money(rng.between(900, 18900), lang=lang)
        if kind == "year":
            return str(self.today.year)
        low, high = _NUMBERS[name if name in _NUMBERS else kind]
        return str(rng.between(low, high))


_HOURS = {"hour": (9, 16), "evening": (17, 20)}
_NUMBERS = {
    "n": (2, 9),
    "few": (3, 6),
    "nn": (11, 68),
    "nn2": (26, 39),
    "nn3": (8, 21),
    "nn4": (40, 58),
    "nnn": (120, 980),
    "nnnn": (1204, 9780),
    "ref": (100_000, 999_999),
}
