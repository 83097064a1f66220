"""Import FIT files of watches and bicycle computers: workouts, heart rate and power."""

import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any

import fitdecode

from importers.core.export_files import ExportFile
from importers.core.importer import ExportFiles, Importer, read_each
from importers.core.results import (
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    issue_item,
)
from importers.core.text import one_line

FILE_MAX_BYTES = 64 * 1024 * 1024
_MEASUREMENTS = {
    "heart_rate": ("HeartRate", "count/min"),
    "power": ("CyclingPower", "W"),
    "cadence": ("Cadence", "count/min"),
    "temperature": ("Temperature", "degC"),
}
"""Kinds and units as in Apple Health, by field."""


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [file for file in files if file.head[8:12] == b".FIT"]


def _read_file(file: ExportFile) -> ExportItems:
    content, device, has_workout = file.read(max_bytes=FILE_MAX_BYTES), None, False
    for number, (name, values) in enumerate(_messages(content), 1):
        location = f"message {number:,}"
        if name == "file_id":
            device = _device(values)
        elif name == "session":
            size, has_workout = 0 if has_workout else file.size, True
            yield ExportItem(file.name, location, size, partial(_workout, values, device))
        elif name == "record" and not values.keys().isdisjoint(_MEASUREMENTS):
            yield ExportItem(file.name, location, 0, partial(_measurements, values, device))
    if not has_workout:
        yield issue_item(
            file.name, "", ReceiptCode.NOT_SUPPORTED, "a file without a workout", size=file.size
        )


def _messages(content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and values of each message. Raises ``UnreadableError`` at damage."""
    try:
        with fitdecode.FitReader(
            content,
            check_crc=fitdecode.CrcCheck.RAISE,
            error_handling=fitdecode.ErrorHandling.RAISE,
        ) as reader:
            for frame in reader:
                if isinstance(frame, fitdecode.FitDataMessage):
                    values = ((each.name, each.value) for each in frame.fields)
                    yield frame.name, {name: value for name, value in values if value is not None}
    except (fitdecode.FitError, struct.error, ValueError, ArithmeticError, LookupError, TypeError,
            AttributeError, RuntimeError) as error:  # fmt: skip
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error


def _workout(values: dict[str, Any], device: str | None) -> ParsedItem:
    item = ParsedItem()
    start, end = _time(values.get("start_time")), _time(values.get("timestamp"))
    item.require_date(start, values.get("start_time"))
    seconds = _number(values.get("total_timer_time")) or _number(values.get("total_elapsed_time"))
    sport = one_line(str(values.get("sport") or "unknown"), max_chars=100)
    distance, energy = (_number(values.get(f"total_{name}")) for name in ("distance", "calories"))
    data = {
        "id": _key("w_", start, sport, seconds, distance),
        "sport": sport,
        "started_at": start,
        "ended_at": end,
        "duration_minutes": None if seconds is None else round(seconds / 60, 3),
        "distance": distance,
        "distance_unit": None if distance is None else "m",
        "energy": energy,
        "energy_unit": None if energy is None else "kcal",
        "source": "FIT",
        "device": device,
    }
    item.records.append(ParsedRecord("workouts", data))
    return item


def _measurements(values: dict[str, Any], device: str | None) -> ParsedItem:
    item, at = ParsedItem(), _time(values.get("timestamp"))
    if at is None:
        raise UnreadableError(ReceiptCode.MALFORMED, detail="no time")
    for name, (kind, unit) in _MEASUREMENTS.items():
        value = _number(values.get(name))
        if value is None:
            continue
        data = {
            "id": _key("h_", kind, at, value, device),
            "kind": kind,
            "value": value,
            "text_value": None,
            "unit": unit,
            "started_at": at,
            "ended_at": at,
            "source": "FIT",
            "device": device,
            "is_double": False,
        }
        item.records.append(ParsedRecord("measurements", data))
    if not item.records:
        raise UnreadableError(ReceiptCode.MALFORMED, detail="no number")
    return item


def _device(values: dict[str, Any]) -> str | None:
    names = (values.get("manufacturer"), values.get("garmin_product") or values.get("product"))
    text = " ".join(str(name) for name in names if name is not None)
    return one_line(text, max_chars=200) or None


def _key(prefix: str, *parts: object) -> str:
    identity = "\0".join(map(str, ("fit", *parts)))
    return f"{prefix}{sha256(identity.encode('utf-8', 'replace')).hexdigest()[:28]}"


def _time(value: object) -> str | None:
    """Return a time in UTC; small numbers are seconds since the start of the device."""
    if not isinstance(value, datetime):
        return None
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e15 else None  # type: ignore[arg-type]


FIT = Importer(
    claim=_claim,
    read=read_each(_read_file),
)
