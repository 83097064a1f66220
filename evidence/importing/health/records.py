"""Apple Health: each measurement and each workout."""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any

from evidence.importing.codes import Code
from evidence.importing.exports import Entry, each
from evidence.importing.health.doubles import SUMMED, Worn, moment, worn
from evidence.importing.health.elements import Element, elements
from evidence.importing.items import Item, Piece, Pieces, Row, UnreadableError
from evidence.importing.kinds import Entries, Kind
from evidence.importing.options import Options
from evidence.importing.texts import one_line

_NAMES = frozenset({"Record", "Workout"})
_PREFIX = re.compile(r"^HK(?:Quantity|Category|Data)TypeIdentifier|^HKWorkoutActivityType")
_CATEGORY = re.compile(r"^HKCategoryValue")
_DEVICE = re.compile(r"name:([^,>]+)")
_IDENTITY = ("type", "workoutActivityType", "sourceName", "startDate", "endDate", "value", "unit")


def _claim(entries: Entries) -> list[Entry]:
    return [entry for entry in entries if entry.suffix == ".xml" and b"<HealthData" in entry.head]


def _read(entries: Entries, options: Options) -> Pieces:
    return each(entries, _file)


def _file(entry: Entry) -> Pieces:
    with entry.open() as stream:
        counted = worn(stream)
    with entry.open() as stream:
        for element in elements(stream, names=_NAMES):
            make = partial(_measurement, element, counted)
            if element.name == "Workout":
                make = partial(_workout, element)
            yield Piece(entry.name, f"line {element.line:,}", element.size, make)


def _measurement(element: Element, counted: Worn) -> Item:
    item, said = Item(), element.attributes
    kind = _PREFIX.sub("", said.get("type", ""))
    if not kind:
        raise UnreadableError(Code.NO_IDENTITY)
    start, end = _moments(said, item)
    value = _number(said.get("value"))
    text = None if value is not None else _CATEGORY.sub("", said.get("value", "")) or None
    source = _text(said.get("sourceName"))
    is_watch = "Watch" in (source or "")
    is_double = (
        kind in SUMMED
        and not is_watch
        and start is not None
        and end is not None
        and counted.covers(kind, start, end)
    )
    item.rows.append(
        Row(
            "measurements",
            {
                "id": _key("h_", said),
                "kind": _text(kind) or "unknown",
                "value": value,
                "text_value": _text(text),
                "unit": _text(said.get("unit")),
                "started_at": start.isoformat() if start else None,
                "ended_at": end.isoformat() if end else None,
                "source": source,
                "device": _device(said),
                "is_double": is_double,
            },
        )
    )
    return item


def _workout(element: Element) -> Item:
    item, said = Item(), element.attributes
    start, end = _moments(said, item)
    totals = _totals(element)
    item.rows.append(
        Row(
            "workouts",
            {
                "id": _key("w_", said),
                "sport": _text(_PREFIX.sub("", said.get("workoutActivityType", ""))) or "unknown",
                "started_at": start.isoformat() if start else None,
                "ended_at": end.isoformat() if end else None,
                "duration_minutes": _minutes(said),
                **totals,
                "source": _text(said.get("sourceName")),
                "device": _device(said),
            },
        )
    )
    return item


def _totals(element: Element) -> dict[str, Any]:
    """In the attributes until 2022, in statistics below since."""
    said = dict(element.attributes)
    for name, below in element.children:
        if name == "WorkoutStatistics" and "sum" in below:
            kind = _PREFIX.sub("", below.get("type", ""))
            if kind.startswith("Distance"):
                said |= {"totalDistance": below["sum"], "totalDistanceUnit": below.get("unit", "")}
            elif kind == "ActiveEnergyBurned":
                said |= {
                    "totalEnergyBurned": below["sum"],
                    "totalEnergyBurnedUnit": below.get("unit", ""),
                }
    return {
        "distance": _number(said.get("totalDistance")),
        "distance_unit": _text(said.get("totalDistanceUnit")),
        "energy": _number(said.get("totalEnergyBurned")),
        "energy_unit": _text(said.get("totalEnergyBurnedUnit")),
    }


def _minutes(said: Mapping[str, str]) -> float | None:
    duration = _number(said.get("duration"))
    in_minutes = {"min": 1.0, "s": 1 / 60, "hr": 60.0}.get(said.get("durationUnit", "min"), 1.0)
    return None if duration is None else round(duration * in_minutes, 3)


def _key(prefix: str, said: Mapping[str, str]) -> str:
    """Measurements have no id. Two that agree in all of this are one that is listed twice."""
    identity = "\0".join(said.get(name, "") for name in _IDENTITY)
    return f"{prefix}{sha256(identity.encode('utf-8', 'replace')).hexdigest()[:28]}"


def _moments(said: Mapping[str, str], item: Item) -> tuple[datetime | None, datetime | None]:
    start, end = moment(said.get("startDate")), moment(said.get("endDate"))
    if start is None:
        item.remark(Code.BAD_DATE, detail=said.get("startDate", "")[:40])
    return start, end


def _number(stated: str | None) -> float | None:
    try:
        found = float(stated or "")
    except ValueError:
        return None
    return found if abs(found) < 1e15 else None


def _device(said: Mapping[str, str]) -> str | None:
    found = _DEVICE.search(said.get("device", ""))
    return _text(found[1]) if found else None


def _text(stated: str | None) -> str | None:
    return one_line(stated, most=200) or None if stated else None


HEALTH = Kind(
    name="apple-health",
    title="measurements and workouts (Apple Health)",
    source="health",
    label="Health",
    claim=_claim,
    read=_read,
)
