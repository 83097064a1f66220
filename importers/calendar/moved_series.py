"""Pair the occurrences of a series whose start moved with those that an earlier import stored.

An occurrence that the owner erased then stays erased: it is under another key in the newer export.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from importers.core.results import ParsedRecord

_NEIGHBORS = 8


def key_of(series: str, start: datetime) -> str:
    return f"{series}.{start.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def stored_series(keys: Iterable[str]) -> dict[str, list[datetime]]:
    """Return the starts of stored occurrences by series."""
    series: dict[str, list[datetime]] = {}
    for key in sorted(keys):
        name, _, written = key.partition(".")
        try:
            start = datetime.strptime(written, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except ValueError:
            continue
        series.setdefault(name, []).append(start)
    return series


def add_moved_keys(
    series: str,
    records: Sequence[ParsedRecord],
    starts: Mapping[str, datetime],
    stored: Sequence[datetime],
    zone: tzinfo,
) -> list[ParsedRecord]:
    """Return the records with the key that each had before the series moved, if it moved.

    ``starts`` are those of all occurrences by key.
    """
    shift = _find_shift(stored, starts.values(), zone)
    if not shift:
        return list(records)
    moved = []
    for record in records:
        start = starts.get(record.data["id"])
        before = start and (_wall_time(start, zone) - shift).replace(tzinfo=zone)
        key = before and key_of(series, before)
        is_new = key and key not in starts
        moved.append(ParsedRecord(record.stream, record.data, (key,)) if key and is_new else record)
    return moved


def _find_shift(
    stored: Sequence[datetime], starts: Iterable[datetime], zone: tzinfo
) -> timedelta | None:
    """Return by how much most stored occurrences moved, less than to the next of them.

    Local times are compared, since a moved series keeps them when daylight saving time begins.
    """
    new = sorted({_wall_time(start, zone) for start in starts})
    known = set(new)
    old = sorted({_wall_time(start, zone) for start in stored} - known)
    if not old or not new:
        return None
    shifts: Counter[timedelta] = Counter()
    for start in old:
        at = bisect_left(new, start)
        shifts.update(each - start for each in new[max(0, at - _NEIGHBORS) : at + _NEIGHBORS])
    gap = min((after - before for before, after in pairwise(new)), default=timedelta.max)
    near = {shift: count for shift, count in shifts.items() if abs(shift) < gap}
    if not near:
        return None
    best = max(near, key=lambda shift: (near[shift], -abs(shift)))
    return best if near[best] * 2 >= len(old) else None


def _wall_time(time: datetime, zone: tzinfo) -> datetime:
    return time.astimezone(zone).replace(tzinfo=None)
