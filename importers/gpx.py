"""Import GPX files: their tracks and routes as journeys, waypoints as visits, and positions."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from xml.etree import ElementTree as ET

import gpxpy
from gpxpy import gpx
from gpxpy.gpx import GPXException, GPXRoutePoint, GPXTrack, GPXTrackPoint, GPXWaypoint

from importers.core.export_files import ExportFile
from importers.core.importer import Importer, claim_each, read_each
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    record_key,
)
from importers.core.text import one_line, to_utf8

FILE_MAX_BYTES = 32 * 1024 * 1024
_VISIT_FIELDS = ("name", "address", "ended_at", "latitude", "longitude", "end_latitude",
                 "end_longitude", "distance_m", "confidence")  # fmt: skip


def _read_file(file: ExportFile) -> ExportItems:
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
        place = {"latitude": _degrees(point.latitude), "longitude": _degrees(point.longitude)}
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
        end_latitude=_degrees(last.latitude),
        end_longitude=_degrees(last.longitude),
        distance_m=None if distance is None else round(distance, 1),
    )
    return item


def _add_visit(
    item: ParsedItem, kind: str, name: str | None, time: datetime | None, at: Any, **fields: Any
) -> None:
    data = dict.fromkeys(_VISIT_FIELDS) | fields
    data |= {"kind": kind.lower(), "name": _line(name), "started_at": _iso(time)}
    data |= {"latitude": _degrees(at.latitude), "longitude": _degrees(at.longitude)}
    names = ("kind", "name", "started_at", "latitude", "longitude", "end_latitude", "end_longitude")
    key = record_key("v_", *(data[each] for each in names))
    item.records.append(ParsedRecord("visits", {"id": key, **data}))


def _degrees(value: float) -> float | None:
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
    read=read_each(_read_file),
)
