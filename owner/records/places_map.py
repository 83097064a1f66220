"""A map of positions, drawn by the server without tiles: bubbles, a grid of degrees and a scale."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from evidence.access.buckets import Cell, count_by_cell, near
from evidence.access.records import VisibleRecords
from evidence.access.sql import SQL
from owner.records.record_roles import StreamRoles
from owner.text import one_line, pluralize, to_local_time

MAX_CELLS = 250
MAX_NAMES = 8
MAX_LISTED = 12
MAX_LINES = 5
ASPECT = 1.6
"""Width by height; the style sheet has the same."""
MARGIN = 0.12
KM_PER_DEGREE = 111.2
STEPS = (60, 30, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
SCALES = (5000, 2000, 1000, 500, 200, 100, 50, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1)


@dataclass(frozen=True, slots=True)
class Bubble:
    """The records of one cell; `x` and `y` are percentages of the map, `radius` is in pixels."""

    x: float
    y: float
    radius: float
    name: str
    label: str
    records: int
    last: date | None
    url: str
    is_named: bool


@dataclass(frozen=True, slots=True)
class Frame:
    """The part of the world that the map shows: its center, and degrees of longitude and latitude."""

    latitude: float
    longitude: float
    width: float
    height: float

    def x(self, longitude: float) -> float:
        return round(50 + 100 * (longitude - self.longitude) / self.width, 2)

    def y(self, latitude: float) -> float:
        return round(50 - 100 * (latitude - self.latitude) / self.height, 2)

    @property
    def km_wide(self) -> float:
        return self.width * KM_PER_DEGREE * math.cos(math.radians(self.latitude))


def places_map(
    visible: VisibleRecords, roles: StreamRoles, *, url: Callable[[Cell], str]
) -> dict[str, Any]:
    """Return the template variables of the map; empty without positions. One query."""
    latitude, longitude = roles.position or ("", "")
    cells = count_by_cell(visible, latitude, longitude, name=roles.title, limit=MAX_CELLS)
    if not cells:
        return {}
    cells = _merge_names(cells)
    frame = _frame(cells)
    bubbles = _bubbles(cells, frame, url=url)
    return {
        "bubbles": list(reversed(bubbles)),
        "places": [each for each in bubbles if each.name][:MAX_LISTED],
        "lines": _lines(frame),
        "scale": _scale(frame),
        "map_text": f"Map of {pluralize(sum(each.records for each in cells), 'record')}"
        f" at {pluralize(len(cells), 'place')}",
    }


@dataclass(frozen=True, slots=True)
class Place:
    """A position with the distance in degrees that is near it."""

    latitude: float
    longitude: float
    reach: float

    def condition(self, visible: VisibleRecords, roles: StreamRoles) -> SQL:
        names = roles.position or ("", "")
        position, reach = (self.latitude, self.longitude), (self.reach, self.reach)
        return near(visible, *names, position=position, reach=reach)


def format_place(cell: Cell) -> str:
    """Return a cell as the URL has it."""
    return f"{cell.latitude:.5f},{cell.longitude:.5f},{cell.reach or cell.size / 2:.5f}"


def parse_place(text: str) -> Place | None:
    """Return the place of a URL, or None if it is none."""
    try:
        place = Place(*map(float, text.split(",")))
    except (TypeError, ValueError):
        return None
    is_finite = all(map(math.isfinite, (place.latitude, place.longitude, place.reach)))
    return place if is_finite else None


def _merge_names(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells, with neighbors of one name as one; those with the most records first."""
    merged: list[Cell] = []
    for cell in cells:
        twin = next((each for each in merged if cell.name and _are_one_place(each, cell)), None)
        if twin is None:
            merged.append(cell)
            continue
        share = cell.records / (cell.records + twin.records)
        merged[merged.index(twin)] = replace(
            twin,
            latitude=twin.latitude + share * (cell.latitude - twin.latitude),
            longitude=twin.longitude + share * (cell.longitude - twin.longitude),
            records=twin.records + cell.records,
            last=max((each for each in (twin.last, cell.last) if each), default=None),
            reach=twin.size,
        )
    return sorted(merged, key=lambda each: -each.records)


def _are_one_place(one: Cell, other: Cell) -> bool:
    distance = max(abs(one.latitude - other.latitude), abs(one.longitude - other.longitude))
    return one.name == other.name and distance < 2 * one.size


def _frame(cells: Sequence[Cell]) -> Frame:
    """Return a frame around all cells whose east and north have the same scale in its middle."""
    south, north = (pick(each.latitude for each in cells) for pick in (min, max))
    west, east = (pick(each.longitude for each in cells) for pick in (min, max))
    latitude = (south + north) / 2
    stretch = max(math.cos(math.radians(latitude)), 0.05)
    least = cells[0].size * 4
    height = max(north - south, (east - west) * stretch / ASPECT, least) * (1 + 2 * MARGIN)
    return Frame(latitude, (west + east) / 2, height * ASPECT / stretch, height)


def _bubbles(cells: Sequence[Cell], frame: Frame, *, url: Callable[[Cell], str]) -> list[Bubble]:
    """Return the bubbles, largest first. Some have their name on the map, where there is room."""
    most = cells[0].records
    named: list[tuple[float, float]] = []
    bubbles = []
    for cell in cells:
        x, y = frame.x(cell.longitude), frame.y(cell.latitude)
        name = one_line(cell.name, max_length=60) if cell.name else ""
        has_room = all(abs(x - other) > 14 or abs(y - above) > 5 for other, above in named)
        is_below_scale = x < 60 or y > 16
        is_named = bool(name) and has_room and is_below_scale and len(named) < MAX_NAMES and x < 85
        if is_named:
            named.append((x, y))
        position = f"{cell.latitude:.4f}, {cell.longitude:.4f}"
        bubbles.append(
            Bubble(
                x=x,
                y=y,
                radius=round(4 + 14 * math.sqrt(cell.records / most), 1),
                name=name,
                label=f"{name or position}: {pluralize(cell.records, 'record')}",
                records=cell.records,
                last=None if cell.last is None else to_local_time(cell.last).date(),
                url=url(cell),
                is_named=is_named,
            )
        )
    return bubbles


def _lines(frame: Frame) -> dict[str, list[tuple[float, str]]]:
    """Return the positions and labels of a few meridians and parallels."""
    step = next((each for each in reversed(STEPS) if frame.width / each <= MAX_LINES), STEPS[0])
    digits = max(0, -math.floor(math.log10(step)))

    def marks(center: float, size: float) -> list[float]:
        first, last = math.ceil((center - size / 2) / step), math.floor((center + size / 2) / step)
        return [number * step for number in range(first, min(last, first + 20) + 1)]

    def label(degrees: float, ends: str) -> str:
        return f"{abs(degrees):.{digits}f}\N{DEGREE SIGN}{ends[degrees < 0]}"

    return {
        "parallels": [
            (frame.y(each), label(each, "NS")) for each in marks(frame.latitude, frame.height)
        ],
        "meridians": [
            (frame.x(each), label(each, "EW")) for each in marks(frame.longitude, frame.width)
        ],
    }


def _scale(frame: Frame) -> tuple[str, float]:
    """Return a round distance, and where a line of its length to the right end of 98 % begins."""
    km = next((each for each in SCALES if each <= frame.km_wide / 4), SCALES[-1])
    words = f"{km:g} km" if km >= 1 else f"{km * 1000:g} m"
    return words, round(98 - 100 * km / frame.km_wide, 2)
