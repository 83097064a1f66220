"""What a watch and a telephone have both counted.

Steps, ways and energy of the same minutes are measured by every device that is carried, and adding
all of them up counts them twice. Whatever was measured while a watch was worn is the watch's.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO

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
        minutes = _minutes(start, end)
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
        for each in _WATCHED.finditer(text, 0, cut):
            yield each[1].decode(), each[2].decode("latin-1"), each[3].decode("latin-1")
        rest = text[cut:]


def _minutes(start: datetime, end: datetime) -> range:
    """At most those of a day."""
    first = max(0, int(start.timestamp()) // 60 - _FIRST_MINUTE)
    last = min(_MINUTES - 1, max(first, (int(end.timestamp()) - 1) // 60 - _FIRST_MINUTE))
    return range(first, min(last, first + 24 * 60) + 1)
