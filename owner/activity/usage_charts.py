"""What apps read, as charts and as a table: each day against the daily limits, and shares of sources.

Days are in UTC, as limits count them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from evidence.access.gate import Gate
from evidence.access.grant_states import CURRENT_STATES, state_of, with_grant_state
from evidence.access.owner_scope import owner_scope
from evidence.access.quotas import quotas_by_grant
from evidence.access.record_counts import stored_counts
from evidence.access.scope import QuotaUsage
from evidence.ledger.disclosures import DailyUse, daily_use
from evidence.ledger.readings import shown_records
from evidence.models.grants import Grant
from evidence.models.owners import current_owner
from owner.activity.reading_text import Names, activity_url
from owner.charts import HEIGHT, Bar
from owner.grants.grant_forms import UNITS, describe_amount, format_amount
from owner.site import grant_url

DAYS = 28
SLOT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageChart:
    """Bars of one measure, one a day, and the height of the limit; `limit_y` is None without one.

    `scale` labels the top, the middle and the bottom; `ticks` are positions and days.
    """

    title: str
    text: str
    bars: Sequence[Bar]
    limit: str
    limit_y: float | None
    limits_url: str
    scale: Sequence[str]
    ticks: Sequence[tuple[str, str]]

    @property
    def view_box(self) -> str:
        return f"0 0 {DAYS * SLOT} {HEIGHT}"


def usage_charts(client_id: str, *, now: datetime) -> list[UsageChart]:
    """Return a chart for each daily limit; without any limit, one of all records. Three queries."""
    first = now.astimezone(UTC).date() - timedelta(days=DAYS - 1)
    uses = daily_use(client_id, since=datetime.combine(first, time.min, UTC))
    rows = with_grant_state(now).filter(
        package__owner_id=current_owner(), package__client_id=client_id
    )
    grants = list(rows.order_by("-issued_at", "grant_id"))
    quotas = quotas_by_grant([grant.pk for grant in grants], now=now)
    charts = [
        _chart(client_id, _uses_of(grant, grants, uses), first, grant=grant, quota=quota)
        for grant in grants
        if state_of(grant) in CURRENT_STATES and grant.extends_id is None
        for quota in quotas.get(grant.pk, [])
        if quota.period == "day"
    ]
    return charts or [_chart(client_id, uses, first, grant=_current(grants), quota=None)]


def _current(grants: Iterable[Grant]) -> Grant | None:
    return next((grant for grant in grants if state_of(grant) in CURRENT_STATES), None)


def _uses_of(grant: Grant, grants: Iterable[Grant], uses: Iterable[DailyUse]) -> list[DailyUse]:
    """Return the use of a grant, of those that it replaced, and of those that extend it."""
    ids = {
        other.pk
        for other in grants
        if (other.package_id, other.source_id) == (grant.package_id, grant.source_id)
    }
    return [use for use in uses if use.grant_id in ids]


def _chart(
    client_id: str,
    uses: Iterable[DailyUse],
    first: date,
    *,
    grant: Grant | None,
    quota: QuotaUsage | None,
) -> UsageChart:
    measure = "records" if quota is None else quota.measure
    counts: dict[date, int] = defaultdict(int)
    for use in uses:
        counts[use.day] += getattr(use, measure)
    unit = UNITS[measure][0].lower()
    top = _scale_top(measure, max([*counts.values(), 0 if quota is None else quota.most]))
    title = f"{UNITS[measure][0]} per day"
    source = f" from {grant.source.display_name}" if grant is not None and quota else ""
    limit = "" if quota is None else f"{format_amount(measure, quota.most)} {unit}"
    return UsageChart(
        title=f"{title}{source}",
        text=f"{title}{source} in the last {DAYS} days, {'limit ' + limit if limit else 'no limit'}",
        bars=[
            _bar(client_id, number, first + timedelta(days=number), counts, measure, top)
            for number in range(DAYS)
            if counts.get(first + timedelta(days=number))
        ],
        limit=limit,
        limit_y=None if quota is None else round(HEIGHT * (1 - quota.most / top), 1),
        limits_url="" if grant is None else f"{grant_url(grant.pk)}#limits",
        scale=[format_amount(measure, each) for each in (top, top // 2, 0)],
        ticks=[_tick(first, number) for number in range(0, DAYS, 7)],
    )


def _scale_top(measure: str, most: int) -> int:
    """Return the next even round number, such as 20, 40, 60 or 100, in units of the page."""
    unit = UNITS[measure][1]
    power = 1
    while 10 * power * unit < most:
        power *= 10
    return next(step * power * unit for step in (2, 4, 6, 8, 10) if step * power * unit >= most)


def _tick(first: date, number: int) -> tuple[str, str]:
    day = first + timedelta(days=number)
    return f"{100 * number / DAYS:.2f}%", f"{day.day} {day:%b}"


def _bar(
    client_id: str, number: int, day: date, counts: dict[date, int], measure: str, top: int
) -> Bar:
    height = max(2.0, round(HEIGHT * counts[day] / top, 1))
    amount = describe_amount(measure, counts[day])
    url = activity_url(client=client_id, day=day.isoformat())
    return Bar(number * SLOT, HEIGHT - height, height, f"{day.day} {day:%B}: {amount}", url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Distinct records that one app was shown of one source, as often as it read them."""

    shown: int
    total: int

    @property
    def percent(self) -> str:
        """Return the share rounded down: 100 means all records, and a little is not nothing."""
        whole = min(100, 100 * self.shown // self.total) if self.total else 0
        return str(whole) if whole else "<1"

    @property
    def shade(self) -> int:
        """Return 0 to 5, for the color."""
        return min(5, -(-5 * self.shown // self.total)) if self.total else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTable:
    apps: Sequence[tuple[str, str]]
    """Name and address of each column."""
    rows: Sequence[tuple[str, Sequence[Share]]]
    counted_at: datetime


def share_table(owner_id: str, names: Names, *, now: datetime) -> ShareTable | None:
    """Return the table of sources and apps that read any of them; None if nothing is counted."""
    shown = shown_records(owner_id, now=now)
    clients = sorted(shown, key=lambda pk: names.client(pk).casefold())
    if not clients:
        return None
    scope = owner_scope(owner_id)
    totals: Counter[int] = Counter()
    for (connection_id, _), (records, _) in stored_counts(Gate(scope).streams()).items():
        totals[scope.connections[connection_id].source_pk] += records
    by_source: Counter[tuple[str, int]] = Counter()
    for client in clients:
        for connection_id, count in shown[client].by_connection.items():
            if connection_id in scope.connections:
                by_source[client, scope.connections[connection_id].source_pk] += count
    sources = sorted(scope.sources.values(), key=lambda source: source.display_name.casefold())
    return ShareTable(
        apps=[(names.client(pk), activity_url(client=pk)) for pk in clients],
        rows=[
            (
                source.display_name,
                [
                    Share(shown=by_source[client, source.source_pk], total=totals[source.source_pk])
                    for client in clients
                ],
            )
            for source in sources
            if totals[source.source_pk]
        ],
        counted_at=min(shown[client].counted_at for client in clients),
    )
