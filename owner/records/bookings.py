"""Sums of bookings: of a month by currency and category, and of a year by month.

Transfers between two accounts of the same stream are neither money in nor money out.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple

from evidence.access.aggregates import GroupPage, Key, Measure, TimeBuckets, aggregate_groups
from evidence.access.grant_text import humanize
from evidence.access.records import VisibleRecords, link_expression, number_expression
from evidence.access.sql import SQL, fetch_all, fill
from evidence.read.filters import equals_filter
from owner.charts import SLOT, add_months, months_between, months_text, year_ticks
from owner.records.periods import Period, month_links, one_month, zone_name
from owner.records.record_roles import StreamRoles

MAX_GROUPS = 500
MONTHS = 12

OWN_TRANSFERS: Final = """
-- Bookings that take an amount from one account and bring it to another one on the same day.
-- Equal amounts of a day are paired one to one, in the order of their keys.
-- Part: rows with key, account, currency, day and amount. One query.
WITH b AS (
    SELECT i.*, row_number() OVER (
        PARTITION BY i.currency, i.day, i.amount ORDER BY i.record_key
    ) AS number
    FROM ({rows}) i
)
SELECT b.record_key, c.record_key, b.currency, b.day::date, c.amount::float8
FROM b JOIN b AS c ON (c.currency, c.day, c.amount, c.number) = (b.currency, b.day, -b.amount, b.number)
WHERE b.amount < 0 AND b.account <> c.account
"""


class OwnTransfer(NamedTuple):
    """A transfer between two accounts: the keys of both bookings, and what was moved when."""

    from_key: str
    to_key: str
    currency: str
    day: date
    amount: float


@dataclass(frozen=True, slots=True)
class Sums:
    """Money in and money out, as positive amounts of one currency."""

    label: str
    money_in: float
    money_out: float

    @property
    def difference(self) -> float:
        return self.money_in - self.money_out

    @property
    def turnover(self) -> float:
        return self.money_in + self.money_out


def booking_sums(
    visible: VisibleRecords,
    roles: StreamRoles,
    month: date,
    chosen: str,
    *,
    url: Callable[..., str],
) -> dict[str, Any]:
    """Return the template variables of a month and of the year around it. At most five queries.

    `chosen` is a currency of the month; any other text means the one with the largest turnover.
    """
    months = months_between(add_months(month, 2 - MONTHS), add_months(month, 1))
    year_around = Period(months[0], add_months(months[-1], 1))
    transfers = own_transfers(year_around.of(visible), roles)
    keys = [key for each in transfers for key in (each.from_key, each.to_key)]
    visible = visible.filter([SQL(" AND r.record_key <> ALL(%s)", (keys,))]) if keys else visible
    year = _turnover(visible, roles, year_around, by_month=True)
    totals = [Sums(currency, *pair) for (currency, start), pair in year.items() if start == month]
    totals.sort(key=lambda each: -each.turnover)
    currencies = [each.label for each in totals] or list(
        dict.fromkeys(currency for currency, _ in year)
    )
    currency = chosen if chosen in currencies else next(iter(currencies), "")
    of_year = {
        start: Sums("", *pair)
        for (label, start), pair in year.items()
        if label == currency and isinstance(start, date)
    }
    return {
        "totals": totals,
        "transfers": _moved(transfers, roles, month),
        "currency": currency,
        "currencies": [
            (each, url(month=f"{month:%Y-%m}", currency=each), each == currency)
            for each in currencies
        ],
        "categories": _categories(visible, roles, month, currency),
        **_bars(of_year, months, month, currency, url=url),
        **month_links(month, url=url),
    }


def own_transfers(visible: VisibleRecords, roles: StreamRoles) -> Sequence[OwnTransfer]:
    """Return the transfers between accounts of a stream; none if it does not name accounts."""
    if roles.parent is None:
        return []
    fields = visible.stream.fields
    day = TimeBuckets(fields[visible.stream.consent_time_field or ""], "day", zone_name())
    columns = SQL("r.record_key, ") + link_expression(visible, roles.parent.foreign_key)
    columns += SQL(" AS account, coalesce(r.data->>%s, '') AS currency, ", (roles.currency or "",))
    columns += day.start("r.consent_time") + SQL(" AS day, ")
    columns += number_expression(visible, fields[roles.amount or ""]) + SQL(" AS amount")
    found = fetch_all(fill(OWN_TRANSFERS, rows=visible.select(columns)))
    return [OwnTransfer(*row) for row in found]


def _moved(
    transfers: Iterable[OwnTransfer], roles: StreamRoles, month: date
) -> Sequence[tuple[int, str, float]]:
    """Return number, currency and sum of the transfers of a month, by currency."""
    amounts: dict[str, list[float]] = defaultdict(list)
    for each in transfers:
        if each.day.replace(day=1) == month:
            amounts[each.currency].append(each.amount / roles.smallest_units(each.currency))
    return [(len(found), currency, sum(found)) for currency, found in amounts.items()]


def _categories(
    visible: VisibleRecords, roles: StreamRoles, month: date, currency: str
) -> Sequence[Sums]:
    """Return the sums of one currency by category, the largest turnover first."""
    if roles.category is None:
        return []
    if roles.currency and currency:
        visible = visible.filter(
            [equals_filter(visible, roles.currency, currency, param="currency")]
        )
    found = _turnover(visible, roles, one_month(month), by_month=False)
    groups: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (_, category), pair in found.items():
        for side, amount in enumerate(pair):
            groups[str(category or "")][side] += amount
    return sorted(
        (Sums(humanize(name), *pair) for name, pair in groups.items()),
        key=lambda each: -each.turnover,
    )


def _turnover(
    visible: VisibleRecords, roles: StreamRoles, period: Period, *, by_month: bool
) -> Mapping[tuple[str, date | str | None], Sequence[float]]:
    """Return money in and out by currency and by month or category. Two queries."""
    fields = visible.stream.fields
    amount = fields[roles.amount or ""]
    keys: list[Key] = [fields[roles.currency]] if roles.currency else []
    if by_month:
        time_field = fields[visible.stream.consent_time_field or ""]
        keys.append(TimeBuckets(time_field, "month", zone_name()))
    elif roles.category:
        keys.append(fields[roles.category])
    found: dict[tuple[str, date | str | None], list[float]] = defaultdict(lambda: [0.0, 0.0])
    page = GroupPage(0, MAX_GROUPS, None, descending=False)
    for side, operator in enumerate((">", "<")):
        where = [SQL(" AND ") + number_expression(visible, amount) + SQL(f" {operator} 0")]
        measures = [Measure("sum", amount)]
        for group in aggregate_groups(period.of(visible), measures, keys, where, page=page).groups:
            currency = (group.keys[0] or "") if roles.currency else ""
            last = date.fromisoformat(group.keys[-1]) if by_month else group.keys[-1]
            units = roles.smallest_units(currency)
            found[currency, last][side] += abs(float(group.values[0])) / units
    return found


def _bars(
    sums: Mapping[date, Sums],
    months: Sequence[date],
    chosen: date,
    currency: str,
    *,
    url: Callable[..., str],
) -> dict[str, Any]:
    """Return two bars a month, in chart units, with their scale; money out grows downward."""
    most = max((max(each.money_in, each.money_out) for each in sums.values()), default=0.0)
    bars = []
    for number, month in enumerate(months):
        of_month = sums.get(month, Sums("", 0.0, 0.0))
        in_height = round(50 * of_month.money_in / (most or 1.0), 1)
        bars.append({
            "x": number * SLOT,
            "in_y": 50 - in_height,
            "in_height": in_height,
            "out_height": round(50 * of_month.money_out / (most or 1.0), 1),
            "label": f"{month:%B %Y}: in {of_month.money_in:,.2f},"
            f" out {of_month.money_out:,.2f} {currency}",
            "url": url(month=f"{month:%Y-%m}", currency=currency),
            "is_selected": month == chosen,
        })  # fmt: skip
    return {
        "bars": bars if most else (),
        "bars_width": MONTHS * SLOT,
        "most": f"{most:,.0f} {currency}",
        "ticks": year_ticks(months),
        "ends": months_text(months[0], months[-1]),
    }
