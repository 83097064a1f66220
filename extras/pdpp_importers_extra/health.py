"""Import Apple Health measurements and workouts, and mark values that phone and watch both counted."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any

from importers.core.export_files import ExportFile
from importers.core.importer import Importer, claim_each, read_each
from importers.core.readers import XmlElement, iter_elements
from importers.core.results import (
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    record_key,
)
from importers.core.text import one_line

BLOCK_BYTES = 4 * 1024 * 1024
CUMULATIVE_TYPES = ("StepCount", "DistanceWalkingRunning", "ActiveEnergyBurned",
                    "BasalEnergyBurned", "FlightsClimbed", "AppleExerciseTime", "DistanceCycling",
                    "AppleStandTime")  # fmt: skip
_WATCH_RECORD = re.compile(
    rb'<Record type="HKQuantityTypeIdentifier(' + "|".join(CUMULATIVE_TYPES).encode() + rb')" '
    rb'sourceName="(?=[^"<]*Watch)[^"<]*"[^<>]*? startDate="([^"<]+)" endDate="([^"<]+)"'
)
_FIRST_MINUTE = int(datetime(2005, 1, 1, tzinfo=UTC).timestamp()) // 60
_ALLOCATION_BYTES = 64 * 1024
_MAX_MINUTES = 60 * 366 * 24 * 60
_ELEMENTS = frozenset({"Record", "Workout"})
_TYPE_PREFIX = re.compile(r"^HK(?:Quantity|Category|Data)TypeIdentifier|^HKWorkoutActivityType")
_CATEGORY_PREFIX = re.compile(r"^HKCategoryValue")
_DEVICE_NAME = re.compile(r"name:([^,>]+)")
_IDENTITY = ("type", "workoutActivityType", "sourceName", "startDate", "endDate", "value", "unit")
Attributes = Mapping[str, str]


class WatchCoverage:
    """The minutes since 2005 in which a watch counted, as a bitmap for each type.

    A bitmap until today takes about 1.5 MB.
    """

    def __init__(self) -> None:
        self._bitmaps: dict[str, bytearray] = defaultdict(bytearray)

    def add(self, measurement_type: str, start: datetime, end: datetime) -> None:
        bitmap = self._bitmaps[measurement_type]
        minutes = _minute_range(start, end)
        if minutes and minutes[-1] >> 3 >= len(bitmap):
            bitmap.extend(bytes((minutes[-1] >> 3) - len(bitmap) + _ALLOCATION_BYTES))
        for minute in minutes:
            bitmap[minute >> 3] |= 1 << (minute & 7)

    def covers(self, measurement_type: str, start: datetime, end: datetime) -> bool:
        """Return whether the watch counted in the middle of this time."""
        if measurement_type not in self._bitmaps:
            return False
        minute = int((start.timestamp() + end.timestamp()) / 2) // 60 - _FIRST_MINUTE
        bitmap = self._bitmaps[measurement_type]
        return 0 <= minute >> 3 < len(bitmap) and bool(bitmap[minute >> 3] & 1 << (minute & 7))


def parse_date(text: str | None) -> datetime | None:
    """Parse a time such as ``2026-01-05 08:30:00 +0100``."""
    if text is None or len(text) != 25:
        return None
    try:
        return datetime.fromisoformat(f"{text[:19]}{text[20:23]}:{text[23:]}")
    except ValueError:
        return None


def read_watch_coverage(stream: IO[bytes]) -> WatchCoverage:
    """Scan the file with a regular expression, ten times as fast as parsing XML."""
    coverage = WatchCoverage()
    for measurement_type, start_text, end_text in _watch_records(stream):
        start, end = parse_date(start_text), parse_date(end_text)
        if start is not None and end is not None:
            coverage.add(measurement_type, start, end)
    return coverage


def _watch_records(stream: IO[bytes]) -> Iterator[tuple[str, str, str]]:
    rest = b""
    while block := stream.read(BLOCK_BYTES):
        text = rest + block
        end = text.rfind(b"<") if len(text) < 2 * BLOCK_BYTES else len(text)
        for match in _WATCH_RECORD.finditer(text, 0, end):
            yield match[1].decode(), match[2].decode("latin-1"), match[3].decode("latin-1")
        rest = text[end:]


def _minute_range(start: datetime, end: datetime) -> range:
    """Return the minutes of at most a day."""
    first = max(0, int(start.timestamp()) // 60 - _FIRST_MINUTE)
    last = min(_MAX_MINUTES - 1, max(first, (int(end.timestamp()) - 1) // 60 - _FIRST_MINUTE))
    return range(first, min(last, first + 24 * 60) + 1)


def _read_file(file: ExportFile) -> ExportItems:
    with file.open() as stream:
        coverage = read_watch_coverage(stream)
    with file.open() as stream:
        for element in iter_elements(stream, names=_ELEMENTS):
            parse = partial(_measurement, element, coverage)
            if element.name == "Workout":
                parse = partial(_workout, element)
            yield ExportItem(file.name, f"line {element.line:,}", element.size, parse)


def _measurement(element: XmlElement, coverage: WatchCoverage) -> ParsedItem:
    item, attributes = ParsedItem(), element.attributes
    measurement_type = _TYPE_PREFIX.sub("", attributes.get("type", ""))
    if not measurement_type:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    start, end = _start_and_end(attributes, item)
    value = _number(attributes.get("value"))
    text = None if value is not None else _CATEGORY_PREFIX.sub("", attributes.get("value", ""))
    source = _text(attributes.get("sourceName"))
    is_duplicate = (
        measurement_type in CUMULATIVE_TYPES
        and "Watch" not in (source or "")
        and start is not None
        and end is not None
        and coverage.covers(measurement_type, start, end)
    )
    item.records.append(
        ParsedRecord(
            "measurements",
            {
                "id": _key("h_", attributes),
                "kind": _text(measurement_type) or "unknown",
                "value": value,
                "text_value": _text(text),
                "unit": _text(attributes.get("unit")),
                "started_at": start.isoformat() if start else None,
                "ended_at": end.isoformat() if end else None,
                "source": source,
                "device": _device(attributes),
                "is_double": is_duplicate,
            },
        )
    )
    return item


def _workout(element: XmlElement) -> ParsedItem:
    item, attributes = ParsedItem(), element.attributes
    start, end = _start_and_end(attributes, item)
    sport = _TYPE_PREFIX.sub("", attributes.get("workoutActivityType", ""))
    item.records.append(
        ParsedRecord(
            "workouts",
            {
                "id": _key("w_", attributes),
                "sport": _text(sport) or "unknown",
                "started_at": start.isoformat() if start else None,
                "ended_at": end.isoformat() if end else None,
                "duration_minutes": _duration_minutes(attributes),
                **_totals(element),
                "source": _text(attributes.get("sourceName")),
                "device": _device(attributes),
            },
        )
    )
    return item


def _totals(element: XmlElement) -> dict[str, Any]:
    """Read totals from attributes (until iOS 15) or from WorkoutStatistics (since iOS 16)."""
    totals = dict(element.attributes)
    for name, statistics in element.children:
        if name == "WorkoutStatistics" and "sum" in statistics:
            measurement_type = _TYPE_PREFIX.sub("", statistics.get("type", ""))
            value, unit = statistics["sum"], statistics.get("unit", "")
            if measurement_type.startswith("Distance"):
                totals |= {"totalDistance": value, "totalDistanceUnit": unit}
            elif measurement_type == "ActiveEnergyBurned":
                totals |= {"totalEnergyBurned": value, "totalEnergyBurnedUnit": unit}
    return {
        "distance": _number(totals.get("totalDistance")),
        "distance_unit": _text(totals.get("totalDistanceUnit")),
        "energy": _number(totals.get("totalEnergyBurned")),
        "energy_unit": _text(totals.get("totalEnergyBurnedUnit")),
    }


def _duration_minutes(attributes: Attributes) -> float | None:
    duration = _number(attributes.get("duration"))
    unit = attributes.get("durationUnit", "min")
    minutes = {"min": 1.0, "s": 1 / 60, "sec": 1 / 60, "hr": 60.0, "h": 60.0}.get(unit)
    return None if duration is None or minutes is None else round(duration * minutes, 3)


def _key(prefix: str, attributes: Attributes) -> str:
    """Make a key from the attributes: the export has no ids, and lists some elements twice."""
    return record_key(prefix, *(attributes.get(name, "") for name in _IDENTITY))


def _start_and_end(
    attributes: Attributes, item: ParsedItem
) -> tuple[datetime | None, datetime | None]:
    start, end = parse_date(attributes.get("startDate")), parse_date(attributes.get("endDate"))
    return item.require_date(start, attributes.get("startDate", "")), end


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if abs(value) < 1e15 else None


def _device(attributes: Attributes) -> str | None:
    match = _DEVICE_NAME.search(attributes.get("device", ""))
    return _text(match[1]) if match else None


def _text(text: str | None) -> str | None:
    return one_line(text, max_chars=200) or None if text else None


HEALTH = Importer(
    claim=claim_each(lambda file: file.suffix == ".xml" and b"<HealthData" in file.head),
    read=read_each(_read_file),
)
