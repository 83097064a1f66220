"""One month of bookings with its sums, and the sums of a year by month."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any

from evidence.access.granted_streams import equals_filter, range_filter
from evidence.access.record_counts import within
from evidence.access.records import VisibleRecords
from evidence.access.scope import TimeRange
from evidence.reading.aggregate import AggregateRequest, aggregate
from owner.charts import SLOT, add_months, months_between, year_ticks
from owner.records.calendar_month import month_links, month_range
from owner.records.record_roles import RecordSummary, StreamRoles, summarize

MAX_BOOKINGS = 1_000
MONTHS = 12
CATEGORY, CURRENCY = "category", "currency"


@dataclass(frozen=True, slots=True)
class Sums:
    """Money in and money out, as positive amounts of one currency."""

    label: str
    money_in: float
    money_out: float

    @property
    def balance(self) -> float:
        return self.money_in - self.money_out


@dataclass(frozen=True, slots=True)
class MonthBars:
    """Two bars of one month, in chart units; money out grows downward from the middle."""

    x: int
    in_height: float
    out_height: float
    label: str
    url: str
    is_selected: bool

    @property
    def in_y(self) -> float:
        return 50 - self.in_height


def bookings(
    visible: VisibleRecords, roles: StreamRoles, month: date, *, url: Callable[..., str]
) -> tuple[dict[str, Any], list[RecordSummary]]:
    """Return the template variables of a month, and its bookings, newest first."""
    found = within(visible, month_range(month)).page(limit=MAX_BOOKINGS + 1, descending=True)
    shown = summarize(visible, found[:MAX_BOOKINGS])
    totals = sum_up(shown, key=lambda each: each.currency)
    currency = totals[0].label if totals else ""
    in_currency = [each for each in shown if each.currency == currency]
    has_category = CATEGORY in visible.stream.fields
    context = {
        "days": [(day, list(rows)) for day, rows in groupby(shown, key=lambda each: each.day)],
        "totals": totals,
        "currency": currency,
        "categories": sum_up(in_currency, key=lambda each: each.line(CATEGORY))
        if has_category
        else [],
        "truncated": len(found) > MAX_BOOKINGS,
        **_year(visible, roles, month, currency, url=url),
        **month_links(month, url=url),
    }
    return context, shown


def sum_up(bookings: Sequence[RecordSummary], *, key: Callable[[RecordSummary], str]) -> list[Sums]:
    """Return the sums of each group, the largest turnover first."""
    groups: dict[str, list[float]] = defaultdict(list)
    for booking in bookings:
        if booking.amount is not None:
            groups[key(booking)].append(booking.amount)
    sums = [
        Sums(label, sum(a for a in amounts if a > 0), -sum(a for a in amounts if a < 0))
        for label, amounts in groups.items()
    ]
    return sorted(sums, key=lambda each: -(each.money_in + each.money_out))


def _year(
    visible: VisibleRecords, roles: StreamRoles, month: date, currency: str,
    *, url: Callable[..., str],
) -> dict[str, Any]:  # fmt: skip
    """Return the bars of the twelve months that end after the chosen one. Two queries."""
    field = visible.stream.fields[roles.amount or ""]
    if "gt" not in field.range_operators or "lt" not in field.range_operators:
        return {}
    months = months_between(add_months(month, 2 - MONTHS), add_months(month, 1))
    first, last = month_range(months[0]).since, month_range(months[-1]).until
    rows = within(visible, TimeRange(first, last))
    if currency and CURRENCY in visible.stream.fields:
        rows = rows.filter([equals_filter(rows, CURRENCY, currency, param="filter")])
    units = roles.smallest_units(currency)
    money_in = _sums_by_month(rows, roles, "gt", units=units)
    money_out = _sums_by_month(rows, roles, "lt", units=units)
    most = max([*money_in.values(), *money_out.values(), 1.0])
    bars = [
        MonthBars(
            x=number * SLOT,
            in_height=round(50 * money_in.get(each, 0.0) / most, 1),
            out_height=round(50 * money_out.get(each, 0.0) / most, 1),
            label=f"{each:%B %Y}: in {money_in.get(each, 0.0):,.2f},"
            f" out {money_out.get(each, 0.0):,.2f} {currency}",
            url=url(month=f"{each:%Y-%m}"),
            is_selected=each == month,
        )
        for number, each in enumerate(months)
    ]
    return {"bars": bars, "bars_width": MONTHS * SLOT, "ticks": year_ticks(months)}


def _sums_by_month(
    rows: VisibleRecords, roles: StreamRoles, operator: str, *, units: int
) -> Mapping[date, float]:
    """Return month -> sum of the positive (``gt``) or negative (``lt``) amounts, without sign."""
    request = AggregateRequest(
        metrics=["sum"],
        field=roles.amount,
        group_by=[],
        group_by_time=rows.stream.event_time_field,
        granularity="month",
        time_zone="UTC",
        sort=None,
        start=0,
        limit=MONTHS,
    )
    where = [range_filter(rows, roles.amount or "", operator, "0", param="filter")]
    return {
        date.fromisoformat(group.keys[0][:10]).replace(day=1): abs(float(group.values[0])) / units
        for group in aggregate(rows, request, where).groups
        if group.keys[0] is not None
    }
