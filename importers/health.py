"""Apple Health: each measurement and each workout."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import IO, Any

from importers.core.export_files import Entry, each
from importers.core.importer import Entries, Kind, Options
from importers.core.results import Code, Item, Piece, Pieces, Row, UnreadableError
from importers.core.streaming import Element, elements
from importers.core.text import one_line

BLOCK_BYTES = 4 * 1024 * 1024
SUMMED = ("StepCount", "DistanceWalkingRunning", "ActiveEnergyBurned", "BasalEnergyBurned",
          "FlightsClimbed", "AppleExerciseTime", "DistanceCycling", "AppleStandTime")  # fmt: skip
_WATCHED = re.compile(
    rb'<Record type="HKQuantityTypeIdentifier(' + "|".join(SUMMED).encode() + rb')" '
    rb'sourceName="(?=[^"<]*Watch)[^"<]*"[^<>]*? startDate="([^"<]+)" endDate="([^"<]+)"'
)
_FIRST_MINUTE = int(datetime(2005, 1, 1, tzinfo=UTC).timestamp()) // 60
_BYTES_AHEAD = 64 * 1024
_MINUTES = 60 * 366 * 24 * 60


class Worn:
    """A bit for each minute since 2005 and each kind: a megabyte and a half a kind by now."""

    def __init__(self) -> None:
        self._bits: dict[str, bytearray] = defaultdict(bytearray)

    def add(self, kind: str, start: datetime, end: datetime) -> None:
        bits = self._bits[kind]
        minutes = _watch_minutes(start, end)
        if minutes and minutes[-1] >> 3 >= len(bits):
            bits.extend(bytes((minutes[-1] >> 3) - len(bits) + _BYTES_AHEAD))
        for minute in minutes:
            bits[minute >> 3] |= 1 << (minute & 7)

    def covers(self, kind: str, start: datetime, end: datetime) -> bool:
        """Whether the watch counted in the middle of this time."""
        if kind not in self._bits:
            return False
        minute = int((start.timestamp() + end.timestamp()) / 2) // 60 - _FIRST_MINUTE
        bits = self._bits[kind]
        return 0 <= minute >> 3 < len(bits) and bool(bits[minute >> 3] & 1 << (minute & 7))


def moment(stated: str | None) -> datetime | None:
    """``2026-01-05 08:30:00 +0100``."""
    if stated is None or len(stated) != 25:
        return None
    try:
        return datetime.fromisoformat(f"{stated[:19]}{stated[20:23]}:{stated[23:]}")
    except ValueError:
        return None


def worn(stream: IO[bytes]) -> Worn:
    """One pass over the file, which is looked at as text: parsing it takes ten times as long."""
    found = Worn()
    for kind, start, end in _watched(stream):
        first, last = moment(start), moment(end)
        if first is not None and last is not None:
            found.add(kind, first, last)
    return found


def _watched(stream: IO[bytes]) -> Iterator[tuple[str, str, str]]:
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        text = rest + block
        cut = text.rfind(b"<") if len(text) < 2 * BLOCK_BYTES else len(text)
        for match in _WATCHED.finditer(text, 0, cut):
            yield match[1].decode(), match[2].decode("latin-1"), match[3].decode("latin-1")
        rest = text[cut:]


def _watch_minutes(start: datetime, end: datetime) -> range:
    """At most those of a day."""
    first = max(0, int(start.timestamp()) // 60 - _FIRST_MINUTE)
    last = min(_MINUTES - 1, max(first, (int(end.timestamp()) - 1) // 60 - _FIRST_MINUTE))
    return range(first, min(last, first + 24 * 60) + 1)


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
