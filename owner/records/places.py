"""Places of a stream: the positions with the most records, by name, and the records near one of them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from evidence.access.aggregates import Cell, count_by_cell, near
from evidence.access.records import VisibleRecords
from evidence.access.sql import SQL
from owner.records.record_roles import StreamRoles
from owner.text import one_line, to_local_time

MAX_CELLS = 250
MAX_LISTED = 24


@dataclass(frozen=True, slots=True)
class Place:
    """Records near one position; a place without a name is called by its position."""

    name: str
    records: int
    last: date | None
    url: str


def list_places(
    visible: VisibleRecords, roles: StreamRoles, *, url: Callable[[str], str]
) -> list[Place]:
    """Return the places with the most records. `url` takes a position. One query."""
    latitude, longitude = roles.position or ("", "")
    cells = count_by_cell(visible, latitude, longitude, name=roles.title, limit=MAX_CELLS)
    return [
        Place(
            name=one_line(cell.name or f"{cell.latitude:.4f}, {cell.longitude:.4f}", max_length=60),
            records=cell.records,
            last=None if cell.last is None else to_local_time(cell.last).date(),
            url=url(f"{cell.latitude:.5f},{cell.longitude:.5f},{cell.reach or cell.size / 2:.5f}"),
        )
        for cell in _merge_names(cells)[:MAX_LISTED]
    ]


def near_position(text: str, visible: VisibleRecords, roles: StreamRoles) -> SQL | None:
    """Return the condition for records near the position of a URL, or None if it is none."""
    try:
        latitude, longitude, reach = map(float, text.split(","))
    except ValueError:
        return None
    if not all(map(math.isfinite, (latitude, longitude, reach))):
        return None
    names = roles.position or ("", "")
    return near(visible, *names, position=(latitude, longitude), reach=(reach, reach))


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
