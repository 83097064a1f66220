"""Import Google's location history, of Takeout and of a phone, and GPX files: journeys, visits and positions."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from hashlib import sha256
from typing import Any
from xml.etree import ElementTree as ET

import gpxpy
from gpxpy import gpx
from gpxpy.gpx import GPXException, GPXRoutePoint, GPXTrack, GPXTrackPoint, GPXWaypoint

from evidence.declarations.values import parse_instant
from importers.core.dates import unix_to_iso
from importers.core.export_files import ExportFile
from importers.core.importer import Importer, claim_each, read_each
from importers.core.readers import iter_json_items
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    issue_item,
    record_key,
)
from importers.core.text import one_line, to_utf8

_ITEM_PREFIXES = {b'"locations"': "locations.item", b'"timelineObjects"': "timelineObjects.item",
                  b'"semanticSegments"': "semanticSegments.item"}  # fmt: skip
_SIGNALS = "rawSignals.item"
_START_TIME = re.compile(rb'"startTime"\s*:')
_SEGMENT = re.compile(rb'"(?:visit|activity|timelinePath|timelineMemory)"\s*:')
_PATHS = frozenset(("timelinePath", "timelineMemory"))
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,2})?")
_MAX_E7 = 1_800_000_000
_LIMITS = {"latitude": 90, "longitude": 180}
_IMPOSSIBLE = math.nan
_FRACTION = re.compile(r"(\.\d{1,9})\d*")

Json = Mapping[str, Any]


def _item_prefix(file: ExportFile) -> str | None:
    start = file.head[:200]
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):  # an iPhone has no outer object
        is_timeline = _START_TIME.search(file.head) and _SEGMENT.search(file.head)
        return "item" if is_timeline else None
    return next((prefix for name, prefix in _ITEM_PREFIXES.items() if name in start), None)


def _read_file(file: ExportFile) -> ExportItems:
    item_prefix = _item_prefix(file)
    if item_prefix is None:
        raise UnreadableError(ReceiptCode.MALFORMED)
    paths, signals = 0, Counter[str]()
    with file.open() as stream:
        for number, (entry, size) in enumerate(iter_json_items(stream, prefix=item_prefix), 1):
            paths += _has_only_path(entry)
            yield ExportItem(file.name, f"item {number:,}", size, partial(_parse, entry))
    if paths:  # one receipt for all: a year has thousands of them
        yield issue_item(file.name, "", ReceiptCode.NOT_SUPPORTED, f"{paths:,} with a path only")
    if not item_prefix.startswith("semanticSegments"):
        return
    with file.open() as stream:
        for number, (entry, size) in enumerate(iter_json_items(stream, prefix=_SIGNALS), 1):
            if isinstance(entry, dict) and isinstance(entry.get("position"), dict):
                parse = partial(_phone_position, entry["position"])
                yield ExportItem(file.name, f"signal {number:,}", size, parse)
            else:
                signals.update(list(entry)[:1] if isinstance(entry, dict) else ["signal"])
    if signals:
        text = ", ".join(
            f"{count:,} {one_line(name, max_chars=40)}" for name, count in signals.items()
        )
        yield issue_item(
            file.name, "", ReceiptCode.NOT_SUPPORTED, f"{_SIGNALS.partition('.')[0]}: {text}"
        )


def _has_only_path(entry: Any) -> bool:
    is_path = isinstance(entry, dict) and not _PATHS.isdisjoint(entry)
    return is_path and not any(isinstance(entry.get(name), dict) for name in ("visit", "activity"))


def _parse(entry: Any) -> ParsedItem:
    if not isinstance(entry, dict):
        raise UnreadableError(ReceiptCode.MALFORMED)
    if "latitudeE7" in entry:
        return _takeout_position(entry)
    for name, parse in (
        ("placeVisit", _takeout_visit),
        ("activitySegment", _takeout_journey),
        ("visit", _phone_visit),
        ("activity", _phone_journey),
    ):
        if isinstance(entry.get(name), dict):
            return parse(entry)
    if _has_only_path(entry):
        return ParsedItem()
    raise UnreadableError(ReceiptCode.MALFORMED)


def _takeout_position(entry: Json) -> ParsedItem:
    recorded_at = entry.get("timestamp") or unix_to_iso(_seconds(entry.get("timestampMs")))
    place = _degrees(entry.get("latitudeE7")), _degrees(entry.get("longitudeE7"))
    return _position(recorded_at, place, entry.get("accuracy"), entry.get("source"))


def _phone_position(position: Json) -> ParsedItem:
    place = _coordinates(position.get("LatLng") or position.get("latLng"))
    accuracy, source = position.get("accuracyMeters"), position.get("source")
    return _position(position.get("timestamp"), place, accuracy, source)


def _position(
    recorded_at: Any, place: tuple[float | None, float | None], accuracy: Any, source: Any
) -> ParsedItem:
    item = ParsedItem()
    data = {
        "recorded_at": _time(recorded_at, item),
        "latitude": place[0],
        "longitude": place[1],
        "accuracy_m": _float(accuracy),
        "source": one_line(str(source or "")) or None,
    }
    item.records.append(ParsedRecord("points", {"id": _key("p_", data), **_possible(data, item)}))
    return item


def _seconds(milliseconds: Any) -> float | None:
    try:
        return int(milliseconds) / 1000
    except (TypeError, ValueError):
        return None


def _takeout_visit(entry: Json) -> ParsedItem:
    visit = entry["placeVisit"]
    place, duration = visit.get("location") or {}, visit.get("duration") or {}
    return _visit_item(
        "visit",
        _takeout_time(duration, "start"),
        _takeout_time(duration, "end"),
        name=place.get("name"),
        address=place.get("address"),
        latitude=_degrees(place.get("latitudeE7")),
        longitude=_degrees(place.get("longitudeE7")),
        confidence=_float(visit.get("visitConfidence")),
    )


def _takeout_journey(entry: Json) -> ParsedItem:
    journey = entry["activitySegment"]
    duration = journey.get("duration") or {}
    start, end = journey.get("startLocation") or {}, journey.get("endLocation") or {}
    return _visit_item(
        str(journey.get("activityType") or "journey").lower().replace("_", " "),
        _takeout_time(duration, "start"),
        _takeout_time(duration, "end"),
        latitude=_degrees(start.get("latitudeE7")),
        longitude=_degrees(start.get("longitudeE7")),
        end_latitude=_degrees(end.get("latitudeE7")),
        end_longitude=_degrees(end.get("longitudeE7")),
        distance_m=_float(journey.get("distance")),
    )


def _phone_visit(entry: Json) -> ParsedItem:
    place = entry["visit"].get("topCandidate") or {}
    latitude, longitude = _coordinates(place.get("placeLocation"))
    return _visit_item(
        "visit",
        entry.get("startTime"),
        entry.get("endTime"),
        name=place.get("semanticType"),
        latitude=latitude,
        longitude=longitude,
        confidence=_float(place.get("probability")),
    )


def _phone_journey(entry: Json) -> ParsedItem:
    journey = entry["activity"]
    latitude, longitude = _coordinates(journey.get("start"))
    end_latitude, end_longitude = _coordinates(journey.get("end"))
    kind = (journey.get("topCandidate") or {}).get("type") or "journey"
    return _visit_item(
        str(kind).lower().replace("_", " "),
        entry.get("startTime"),
        entry.get("endTime"),
        latitude=latitude,
        longitude=longitude,
        end_latitude=end_latitude,
        end_longitude=end_longitude,
        distance_m=_float(journey.get("distanceMeters")),
    )


def _takeout_time(duration: Json, name: str) -> Any:
    milliseconds = duration.get(f"{name}TimestampMs")
    return duration.get(f"{name}Timestamp") or unix_to_iso(_seconds(milliseconds))


def _visit_item(kind: str, start: Any, end: Any, **fields: Any) -> ParsedItem:
    item = ParsedItem()
    names = ("name", "address", "latitude", "longitude", "end_latitude", "end_longitude",
             "distance_m", "confidence")  # fmt: skip
    data = dict.fromkeys(names) | fields
    for name in ("name", "address"):
        data[name] = one_line(str(data[name])) if data[name] else None
    data |= {"kind": kind, "started_at": _time(start, item), "ended_at": _time(end, None)}
    key = _key("v_", {name: data[name] for name in ("kind", "started_at", "latitude", "longitude")})
    item.records.append(ParsedRecord("visits", {"id": key, **_possible(data, item)}))
    return item


def _possible(data: dict[str, Any], item: ParsedItem) -> dict[str, Any]:
    """Return the fields without coordinates that are impossible, for which there is a receipt."""
    impossible = [
        name
        for name, value in data.items()
        if value is not None
        for limit in [_LIMITS.get(name.removeprefix("end_"))]
        if limit is not None and not abs(value) <= limit
    ]
    if impossible:
        item.add_issue(ReceiptCode.BAD_COORDINATES, detail=", ".join(impossible))
    return data | dict.fromkeys(impossible)


def _key(prefix: str, data: Json) -> str:
    """Return a key of the content."""
    return f"{prefix}{sha256(repr(sorted(data.items())).encode()).hexdigest()[:28]}"


def _time(value: Any, item: ParsedItem | None) -> str | None:
    if isinstance(value, str):
        # RFC 3339 times are stored with at most nine digits of a second.
        text = _FRACTION.sub(r"\1", value)
        if parse_instant(text) is not None:
            return text
    if item is not None:
        item.add_issue(ReceiptCode.BAD_DATE, detail=str(value)[:40])
    return None


def _degrees(e7: Any) -> float | None:
    """Return degrees, NaN for a value that is no angle, and None where there is none."""
    if not isinstance(e7, int | Decimal):
        return None if e7 is None else _IMPOSSIBLE
    # Some exports write negative degrees as if their 32 bits had no sign.
    degrees = float(e7 if e7 <= _MAX_E7 else e7 - 2**32) / 1e7
    return degrees if abs(degrees) <= _MAX_E7 / 1e7 else _IMPOSSIBLE


def _float(value: Any) -> float | None:
    if isinstance(value, str):  # as an iPhone writes numbers
        return float(value) if _NUMBER.fullmatch(value.strip()) else None
    return float(value) if isinstance(value, int | float | Decimal) else None


def _coordinates(place: Any) -> tuple[float | None, float | None]:
    """Parse ``{"latLng": "52.5°, 13.4°"}``, its text, or ``geo:52.5,13.4``."""
    text = place.get("latLng") if isinstance(place, dict) else place
    numbers = _NUMBER.findall(text) if isinstance(text, str) else []
    if len(numbers) == 2:
        return float(numbers[0]), float(numbers[1])
    return (_IMPOSSIBLE, _IMPOSSIBLE) if text else (None, None)


PLACES = Importer(
    claim=claim_each(lambda file: file.suffix == ".json" and _item_prefix(file) is not None),
    read=read_each(_read_file),
)


FILE_MAX_BYTES = 32 * 1024 * 1024
_VISIT_FIELDS = ("name", "address", "ended_at", "latitude", "longitude", "end_latitude",
                 "end_longitude", "distance_m", "confidence")  # fmt: skip


def _read_file_gpx(file: ExportFile) -> ExportItems:
    content = file.read(max_bytes=FILE_MAX_BYTES)
    text = to_utf8(content)
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise UnreadableError(ReceiptCode.MALFORMED, detail="document type")
    try:
        parsed = gpxpy.parse(text)
    except (GPXException, ET.ParseError, ValueError, TypeError, AttributeError) as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
    keys, source = ContentKeys("p_"), _line(parsed.creator)
    items = [*_waypoints(parsed), *_routes(parsed), *_tracks(parsed, keys, source)]
    if not items:
        raise UnreadableError(ReceiptCode.EMPTY)
    for location, parse in items:
        yield ExportItem(file.name, location, file.size // len(items), parse)


def _waypoints(parsed: gpx.GPX) -> Iterator[tuple[str, Any]]:
    for number, point in enumerate(parsed.waypoints, 1):
        yield f"waypoint {number:,}", partial(_waypoint, point)


def _routes(parsed: gpx.GPX) -> Iterator[tuple[str, Any]]:
    for number, route in enumerate(parsed.routes, 1):
        yield (
            f"route {number:,}",
            partial(_journey, "route", route.name, route.points, route.length()),
        )


def _tracks(parsed: gpx.GPX, keys: ContentKeys, source: str | None) -> Iterator[tuple[str, Any]]:
    for number, track in enumerate(parsed.tracks, 1):
        yield f"track {number:,}", partial(_track, track, keys, source)


def _waypoint(point: GPXWaypoint) -> ParsedItem:
    item = ParsedItem()
    _add_visit(item, "waypoint", point.name, point.time, point)
    return item


def _track(track: GPXTrack, keys: ContentKeys, source: str | None) -> ParsedItem:
    points = [point for segment in track.segments for point in segment.points]
    item = _journey(_line(track.type) or "journey", track.name, points, track.length_2d())
    is_undated = False
    for point in points:
        recorded_at = _iso(point.time)
        if recorded_at is None:
            is_undated = True
            continue
        place = {
            "latitude": _degrees_gpx(point.latitude),
            "longitude": _degrees_gpx(point.longitude),
        }
        data = {"recorded_at": recorded_at, **place, "accuracy_m": None, "source": source}
        key = keys.key(recorded_at, *place.values())
        item.records.append(ParsedRecord("points", {"id": key, **data}))
    if is_undated:
        item.add_issue(ReceiptCode.BAD_DATE, detail="positions without a time are left out")
    return item


def _journey(
    kind: str,
    name: str | None,
    points: Sequence[GPXTrackPoint | GPXRoutePoint],
    distance: float | None = None,
) -> ParsedItem:
    if not points:
        raise UnreadableError(ReceiptCode.EMPTY)
    item = ParsedItem()
    times = [moment for point in points if (moment := _moment(point.time))]
    first, last = points[0], points[-1]
    _add_visit(
        item,
        kind,
        name,
        first.time,
        first,
        ended_at=_iso(max(times, default=None)),
        end_latitude=_degrees_gpx(last.latitude),
        end_longitude=_degrees_gpx(last.longitude),
        distance_m=None if distance is None else round(distance, 1),
    )
    return item


def _add_visit(
    item: ParsedItem, kind: str, name: str | None, time: datetime | None, at: Any, **fields: Any
) -> None:
    data = dict.fromkeys(_VISIT_FIELDS) | fields
    data |= {"kind": kind.lower(), "name": _line(name), "started_at": _iso(time)}
    data |= {"latitude": _degrees_gpx(at.latitude), "longitude": _degrees_gpx(at.longitude)}
    names = ("kind", "name", "started_at", "latitude", "longitude", "end_latitude", "end_longitude")
    key = record_key("v_", *(data[each] for each in names))
    item.records.append(ParsedRecord("visits", {"id": key, **data}))


def _degrees_gpx(value: float) -> float | None:
    return round(value, 7) if -180 <= value <= 180 else None


def _moment(time: datetime | None) -> datetime | None:
    """Return a time in UTC, which times without a zone are in."""
    try:
        return time and (time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def _iso(time: datetime | None) -> str | None:
    moment = _moment(time)
    return moment.isoformat().replace("+00:00", "Z") if moment else None


def _line(text: str | None) -> str | None:
    return one_line(text, max_chars=200) or None if text else None


GPX = Importer(
    claim=claim_each(lambda file: file.suffix == ".gpx" or b"<gpx" in to_utf8(file.head[:2000])),
    read=read_each(_read_file_gpx),
)
