"""Charts of measured values: one for each kind, by day of a month or by month of a year."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from typing_extensions import override

from evidence.access.aggregates import Group, GroupPage, Measure, TimeBuckets, aggregate_groups
from evidence.access.grant_text import format_day
from evidence.access.record_counts import within
from evidence.access.records import VisibleRecords
from evidence.access.scope import TimeRange
from evidence.access.sql import SQL
from owner.charts import HEIGHT, SLOT, months_between
from owner.records.periods import Period, one_day, zone_name
from owner.records.record_roles import StreamRoles
from owner.records.record_summaries import unit_text
from owner.text import duration_text, one_line, pluralize

MAX_KINDS = 40
MAX_GROUPS = 4_000
BASE, TOP = 8.0, 96.0
"""The heights of the lowest and the highest value, so that both are visible."""
NIGHT_KINDS = "%sleep%"
"""Kinds of values, in any case, that count for a night instead of a calendar day."""
EVENING = timedelta(hours=6)
"""A night that ends in the last hours of a day, as one abroad does, belongs to the next day."""


class NightBuckets(TimeBuckets):
    """Groups of nights by the day on which the owner wakes: from one evening until the next."""

    @override
    def start(self, column: str) -> SQL:
        return super().start(f"({column} + interval '{EVENING.seconds} seconds')")


@dataclass(frozen=True, slots=True)
class Point:
    """The values of one day or month."""

    slot: int
    mean: float
    low: float
    high: float
    total: float
    records: int


def measure_charts(
    visible: VisibleRecords, roles: StreamRoles, period: Period, *, is_year: bool
) -> dict[str, Any]:
    """Return the template variables of the charts, the most frequent kind first. Two queries."""
    starts = _starts(period, is_year=is_year)
    by_kind: dict[str, list[tuple[Point, str]]] = defaultdict(list)
    for group in _groups(visible, roles, period, "month" if is_year else "day"):
        start = group.keys[-1]
        day = None if start is None else date.fromisoformat(start[:10])
        if day in starts and group.values[0] is not None:
            kind = str(group.keys[0] or "") if len(group.keys) > 1 else ""
            mean, low, high, total = (float(value) for value in group.values)
            point = Point(starts.index(day), mean, low, high, total, group.records)
            by_kind[kind].append((point, group.currencies[0] or ""))
    kinds = sorted(by_kind, key=lambda kind: -sum(p.records for p, _ in by_kind[kind]))
    return {
        "charts": [_chart(kind, by_kind[kind], roles) for kind in kinds[:MAX_KINDS]],
        "left_out": max(0, len(kinds) - MAX_KINDS),
        "view_box": f"0 0 {len(starts) * SLOT} {HEIGHT}",
        "ticks": [
            (
                f"{100 * slot / len(starts):.2f}%",
                f"{each:%b}" if is_year else str(each.day),
            )
            for slot, each in list(enumerate(starts))[:: 2 if is_year else 7]
        ],
        "ends": f"by month in {period.first.year}"
        if is_year
        else f"by day, {format_day(period.first)} to {format_day(period.last)}",
    }


def day_sums(visible: VisibleRecords, roles: StreamRoles, day: date) -> list[tuple[str, str]]:
    """Return kind and total of what adds up over a day: sleep, steps, then others. Two queries."""
    found = []
    for group in _groups(visible, roles, one_day(day), "day") if roles.title else ():
        kind, unit = str(group.keys[0] or ""), group.currencies[0] or ""
        if unit in roles.summed_units and group.values[3] is not None:
            words = one_line(unit_text(unit, kind), max_length=20)
            text = _minutes_text if words == "min" else format_number
            label = _label(kind)
            words = "" if words in ("min", label.lower()) else words
            found.append((label, f"{text(float(group.values[3]))} {words}"))
    return sorted(found, key=lambda each: ("leep" not in each[0], "tep" not in each[0], each[0]))


def _label(kind: str) -> str:
    return one_line(kind.replace("_", " ").capitalize(), max_length=60) or "Values"


def _starts(period: Period, *, is_year: bool) -> list[date]:
    if is_year:
        return months_between(period.first, period.until - timedelta(days=1))
    days = (period.until - period.first).days
    return [period.first + timedelta(days=number) for number in range(days)]


def _groups(
    visible: VisibleRecords, roles: StreamRoles, period: Period, granularity: str
) -> list[Group]:
    """Return mean, minimum, maximum and sum by kind and day or month, with the unit.

    A stream without a kind has no nights. One or two queries.
    """
    fields = visible.stream.fields
    value, unit = fields[roles.measure or ""], fields.get(roles.unit or "")
    measures = [Measure("avg", value, unit), *(Measure(m, value) for m in ("min", "max", "sum"))]
    page = GroupPage(0, MAX_GROUPS, None, descending=False)
    days = TimeBuckets(fields[visible.stream.consent_time_field or ""], granularity, zone_name())
    if not roles.title:
        return aggregate_groups(period.of(visible), measures, [days], [], page=page).groups
    nights = NightBuckets(days.field, days.granularity, days.time_zone)
    since, until = period.bounds(visible.stream)
    shifted = within(visible, TimeRange(since - EVENING, until - EVENING))
    is_night = SQL("coalesce(r.data->>%s, '') ILIKE %s", (roles.title, NIGHT_KINDS))
    return [
        group
        for records, buckets, where in (
            (period.of(visible), days, SQL(" AND NOT (") + is_night + SQL(")")),
            (shifted, nights, SQL(" AND ") + is_night),
        )
        for group in aggregate_groups(
            records, measures, [fields[roles.title], buckets], [where], page=page
        ).groups
    ]


def _chart(kind: str, found: Sequence[tuple[Point, str]], roles: StreamRoles) -> dict[str, Any]:
    """Return the values of one kind as SVG paths: bars of sums, or ranges with their means."""
    points, stored_unit = [point for point, _ in found], found[-1][1]
    is_sum = stored_unit in roles.summed_units
    unit = one_line(unit_text(stored_unit, kind), max_length=20)
    low = 0.0 if is_sum else min(point.low for point in points)
    high = max(point.total if is_sum else point.high for point in points)
    span = (high - low) or 1.0

    def height(value: float) -> float:
        return round(BASE + (TOP - BASE) * (value - low) / span, 1)

    bars = "".join(
        f"M{point.slot * SLOT + 1} {HEIGHT - height(point.total if is_sum else point.high):g}"
        f"h8V{HEIGHT if is_sum else HEIGHT - height(point.low) + 1.5:g}h-8z"
        for point in points
    )
    line = (f"{p.slot * SLOT + SLOT // 2} {HEIGHT - height(p.mean):g}" for p in points)
    is_duration = unit == "min"
    facts = _facts(points, is_sum=is_sum, text=_minutes_text if is_duration else format_number)
    label = _label(kind)
    unit = "" if is_duration or unit == label.lower() else unit
    described = ", ".join(f"{name} {value}" for name, value in facts)
    return {
        "label": label,
        "unit": unit,
        "facts": facts,
        "bars": bars,
        # The line to its own end is a dot, which makes a single value visible.
        "means": "" if is_sum else "M" + "L".join(line) + "h0",
        "scale": [
            f"{round(each / 60, 1):g} h" if is_duration else f"{format_number(each)} {unit}".strip()
            for each in (high, low)
        ],
        "text": f"{label}: {described} {unit}",
    }


def _minutes_text(value: float) -> str:
    return duration_text(60 * value)


def _facts(
    points: Sequence[Point], *, is_sum: bool, text: Callable[[float], str]
) -> list[tuple[str, str]]:
    records = sum(point.records for point in points)
    total = sum(point.total for point in points)
    count = ("From", pluralize(records, "value"))
    if is_sum:
        return [
            ("Total", text(total)),
            ("Average", text(total / len(points))),
            ("Highest", text(max(point.total for point in points))),
            count,
        ]
    return [
        ("Average", text(total / records)),
        ("Lowest", text(min(point.low for point in points))),
        ("Highest", text(max(point.high for point in points))),
        count,
    ]


def format_number(value: float) -> str:
    """Return a number with thousands separators and at most three significant decimals."""
    if abs(value) >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.3g}"
