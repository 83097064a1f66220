"""Google's location history: the positions and visits of Takeout, and the timeline of a telephone."""

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from hashlib import sha256
from typing import Any

from evidence.declarations.values import instant
from importers.core.dates import moment
from importers.core.export_files import Entry, each
from importers.core.importer import Entries, Kind, Options
from importers.core.results import Code, Item, Piece, Pieces, Row, UnreadableError
from importers.core.streaming import ITEM, walk
from importers.core.text import one_line

_LISTS = {b'"locations"': "locations.item", b'"timelineObjects"': "timelineObjects.item",
          b'"semanticSegments"': "semanticSegments.item"}  # fmt: skip
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

Json = Mapping[str, Any]


def _claim(entries: Entries) -> list[Entry]:
    return [entry for entry in entries if entry.suffix == ".json" and _list_of(entry) is not None]


def _list_of(entry: Entry) -> str | None:
    start = entry.head[:200]
    return next((path for name, path in _LISTS.items() if name in start), None)


def _read(entries: Entries, options: Options) -> Pieces:
    return each(entries, _file)


def _file(entry: Entry) -> Pieces:
    path = _list_of(entry)
    if path is None:
        raise UnreadableError(Code.MALFORMED)
    with entry.open() as stream:
        at = number = 0
        for _, event, found in walk(stream, is_item=path.__eq__):
            if event == ITEM:
                number += 1
                size, at = max(0, stream.tell() - at), max(at, stream.tell())
                yield Piece(entry.name, f"item {number:,}", size, partial(_made, found))


def _made(found: Any) -> Item:
    if not isinstance(found, dict):
        raise UnreadableError(Code.MALFORMED)
    if "latitudeE7" in found:
        return _point(found)
    for name, read in (
        ("placeVisit", _visit),
        ("activitySegment", _journey),
        ("visit", _stay),
        ("activity", _move),
    ):
        if isinstance(found.get(name), dict):
            return read(found)
    if "timelinePath" in found or "timelineMemory" in found:
        return Item()
    raise UnreadableError(Code.MALFORMED)


def _point(found: Json) -> Item:
    item = Item()
    at = found.get("timestamp") or moment(_seconds(found.get("timestampMs")))
    data = {
        "recorded_at": _time(at, item),
        "latitude": _degrees(found.get("latitudeE7")),
        "longitude": _degrees(found.get("longitudeE7")),
        "accuracy_m": _float(found.get("accuracy")),
        "source": one_line(str(found.get("source") or "")) or None,
    }
    item.rows.append(Row("points", {"id": _key("p_", data), **data}))
    return item


def _seconds(milliseconds: Any) -> float | None:
    try:
        return int(milliseconds) / 1000
    except (TypeError, ValueError):
        return None


def _visit(found: Json) -> Item:
    visit = found["placeVisit"]
    place, span = visit.get("location") or {}, visit.get("duration") or {}
    return _span(
        "visit",
        _of(span, "start"),
        _of(span, "end"),
        name=place.get("name"),
        address=place.get("address"),
        latitude=_degrees(place.get("latitudeE7")),
        longitude=_degrees(place.get("longitudeE7")),
        confidence=_float(visit.get("visitConfidence")),
    )


def _journey(found: Json) -> Item:
    journey = found["activitySegment"]
    span = journey.get("duration") or {}
    first, last = journey.get("startLocation") or {}, journey.get("endLocation") or {}
    return _span(
        str(journey.get("activityType") or "journey").lower().replace("_", " "),
        _of(span, "start"),
        _of(span, "end"),
        latitude=_degrees(first.get("latitudeE7")),
        longitude=_degrees(first.get("longitudeE7")),
        end_latitude=_degrees(last.get("latitudeE7")),
        end_longitude=_degrees(last.get("longitudeE7")),
        distance_m=_float(journey.get("distance")),
    )


def _stay(found: Json) -> Item:
    place = (found["visit"].get("topCandidate") or {}) if isinstance(found["visit"], dict) else {}
    latitude, longitude = _pair(place.get("placeLocation"))
    return _span(
        "visit",
        found.get("startTime"),
        found.get("endTime"),
        name=place.get("semanticType"),
        latitude=latitude,
        longitude=longitude,
        confidence=_float(place.get("probability")),
    )


def _move(found: Json) -> Item:
    moved = found["activity"]
    latitude, longitude = _pair(moved.get("start"))
    end_latitude, end_longitude = _pair(moved.get("end"))
    kind = (moved.get("topCandidate") or {}).get("type") or "journey"
    return _span(
        str(kind).lower().replace("_", " "),
        found.get("startTime"),
        found.get("endTime"),
        latitude=latitude,
        longitude=longitude,
        end_latitude=end_latitude,
        end_longitude=end_longitude,
        distance_m=_float(moved.get("distanceMeters")),
    )


def _of(span: Json, name: str) -> Any:
    return span.get(f"{name}Timestamp") or moment(_seconds(span.get(f"{name}TimestampMs")))


def _span(kind: str, start: Any, end: Any, **more: Any) -> Item:
    item = Item()
    names = ("name", "address", "latitude", "longitude", "end_latitude", "end_longitude",
             "distance_m", "confidence")  # fmt: skip
    data = dict.fromkeys(names) | more
    for name in ("name", "address"):
        data[name] = one_line(str(data[name])) if data[name] else None
    data |= {"kind": kind, "started_at": _time(start, item), "ended_at": _time(end, None)}
    key = _key("v_", {name: data[name] for name in ("kind", "started_at", "latitude", "longitude")})
    item.rows.append(Row("visits", {"id": key, **data}))
    return item


def _key(prefix: str, data: Json) -> str:
    return f"{prefix}{sha256(repr(sorted(data.items())).encode()).hexdigest()[:28]}"


def _time(stated: Any, item: Item | None) -> str | None:
    if isinstance(stated, str) and instant(_with_seconds(stated)) is not None:
        return _with_seconds(stated)
    if item is not None:
        item.remark(Code.BAD_DATE, detail=str(stated)[:40])
    return None


def _with_seconds(stated: str) -> str:
    """Fractions of a second as RFC 3339 has them: up to nine digits."""
    return re.sub(r"(\.\d{1,9})\d*", r"\1", stated)


def _degrees(e7: Any) -> float | None:
    return None if not isinstance(e7, int | Decimal) else float(e7) / 1e7


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float | Decimal) else None


def _pair(place: Any) -> tuple[float | None, float | None]:
    """``{"latLng": "52.5°, 13.4°"}`` or the text itself, or ``geo:52.5,13.4``."""
    text = place.get("latLng") if isinstance(place, dict) else place
    found = _NUMBER.findall(text) if isinstance(text, str) else []
    return (float(found[0]), float(found[1])) if len(found) == 2 else (None, None)


PLACES = Kind(
    name="places",
    title="places and positions (Google location history)",
    source="places",
    label="Places",
    claim=_claim,
    read=_read,
)
