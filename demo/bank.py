"""Generate the transactions of three bank accounts: salary, rent, bills and daily spending."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from demo import clock, people, shapes
from demo.rng import Rng

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from demo.shapes import Record

# Monthly payments that the stories contain already.
STORY_MONTHS = {("Gerard Vasseur", 2025, 2)}
# Category: percent of days, minimum and maximum cents.
DAILY: dict[str, tuple[int, int, int]] = {
    "groceries": (42, 640, 5890),
    "bakery": (24, 190, 980),
    "cafe": (22, 290, 1240),
    "restaurant": (14, 1150, 5400),
    "transport": (13, 220, 2750),
    "books": (5, 690, 3890),
    "pharmacy": (3, 490, 2990),
    "culture": (5, 850, 4600),
}
YEN_PER_EURO = 162


def records() -> Iterator[Record]:
    for day in clock.days():
        yield from _monthly(day)
        yield from _daily(day)
        yield from _cash(day)
        if day.day == 30 and day.month % 3 == 0:
            yield _interest(day)


def _monthly(day: date) -> Iterator[Record]:
    for entry in people.load_toml("texts/bank.toml")["monthly"]:
        counterparty = entry["counterparty"]
        if entry["on"] != day.day or not entry["from"] <= day <= entry["until"]:
            continue
        if (counterparty, day.year, day.month) in STORY_MONTHS:
            continue
        fields: dict[str, Any] = {
            "day": day,
            "kind": entry["type"],
            "counterparty": counterparty,
            "category": entry["category"],
            "memo": entry["memo"].format(month=f"{day:%m/%Y}"),
        }
        yield shapes.transaction(f"monthly/{counterparty}/{day}", amount=entry["cents"], **fields)
        if entry["category"] == "savings":
            fields |= {"counterparty": "Ida Falkner Girokonto", "account": "savings"}
            yield shapes.transaction(f"monthly/saved/{day}", amount=-entry["cents"], **fields)


def _daily(day: date) -> Iterator[Record]:
    city = clock.city(day)
    shops = people.load_toml("texts/bank.toml")
    for category, (percent, low, high) in DAILY.items():
        name = f"daily/{category}/{day}"
        rng = Rng(name)
        if not rng.chance(percent):
            continue
        cents = rng.bell(low, high)
        yen = cents * YEN_PER_EURO // 100
        yield shapes.transaction(
            name,
            day=day,
            amount=-cents,
            kind="card",
            counterparty=rng.pick(shops[city][category]),
            memo=f"{shops['memos'][city]} {day:%d.%m.}",
            category=category,
            account="card" if category in ("books", "culture") else "giro",
            original=(yen, "JPY") if city == "osaka" else None,
        )


def _cash(day: date) -> Iterator[Record]:
    rng = Rng(f"cash/{day}")
    if rng.chance(4):
        cents = rng.pick([5000, 6000, 8000, 10000])
        place = {"hamburg": "Geldautomat Hamburg", "lyon": "DAB Lyon", "osaka": "ATM ゆうちょ 天満"}
        yield shapes.transaction(
            f"cash/{day}",
            day=day,
            amount=-cents,
            kind="cash",
            counterparty=place[clock.city(day)],
            memo=f"Karte 4471, {day:%d.%m.%Y}",
            category="cash",
        )


def _interest(day: date) -> Record:
    return shapes.transaction(
        f"interest/{day}",
        day=day,
        amount=Rng(f"interest/{day}").between(1890, 5220),
        kind="interest",
        counterparty="Elbe Bank",
        memo=f"Zinsen Quartal {day.month // 3}/{day.year}",
        category="interest",
        account="savings",
    )
