"""What the home page shows: sources with their months, and what apps read."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from evidence.access.gate import Gate
from evidence.access.grant_text import format_day, join_words, stream_label
from evidence.access.record_counts import MonthCount
from evidence.access.records import VisibleRecords
from evidence.ledger.readings import APPS, Reading, list_readings, sum_by_client
from evidence.models.clients import Client
from owner.charts import Chart, add_months, month_chart, months_between, year_ticks
from owner.records.periods import cached_month_counts, is_plausible, today
from owner.records.record_urls import stream_url
from owner.text import last_days, pluralize, to_local_time

MAX_MONTHS = 120
"""Older months are left out of the charts; the first date still tells of them."""
RECENT = timedelta(days=7)
STALE = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLine:
    label: str
    records: int
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionCard:
    """One connection: its streams, its first and last date, and its months."""

    connection_id: str
    name: str
    source: str
    is_demo: bool
    records: int
    first: date | None
    last: date | None
    freshness: str
    is_stale: bool
    chart: Chart
    streams: Sequence[StreamLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    own: Sequence[ConnectionCard]
    demo: Sequence[ConnectionCard]
    ticks: Sequence[tuple[str, str]]

    @property
    def records(self) -> int:
        return sum(card.records for card in self.own)

    @property
    def demo_records(self) -> int:
        return sum(card.records for card in self.demo)


def overview(gate: Gate) -> Overview:
    """Return all connections of the owner with records, fullest first. At most two queries."""
    streams = gate.streams()
    counts = cached_month_counts(streams)
    by_connection: dict[str, list[MonthCount]] = defaultdict(list)
    for count in counts:
        by_connection[count.connection_id].append(count)
    months = _months([month for month, _ in _plausible(counts, streams)])
    cards = [
        _card(facts.connection_id, by_connection[facts.connection_id], streams, months,
              is_demo=facts.is_demo)
        for facts in gate.scope.connections.values()
    ]  # fmt: skip
    cards.sort(key=lambda card: (-card.records, card.name))
    return Overview(
        own=[card for card in cards if not card.is_demo],
        demo=[card for card in cards if card.is_demo],
        ticks=year_ticks(months),
    )


def _plausible(
    counts: Iterable[MonthCount], streams: Sequence[VisibleRecords]
) -> list[tuple[date, MonthCount]]:
    """Return the counts with their month, without those whose date is a fault of their source."""
    return [
        (count.month, count)
        for count in counts
        if count.month and is_plausible(streams[count.number].stream, count.month)
    ]


def _months(found: Sequence[date]) -> list[date]:
    this_month = today().replace(day=1)
    last = min(max([*found, this_month]), add_months(this_month, 12))
    first = max(min([*found, this_month]), add_months(last, 1 - MAX_MONTHS))
    return months_between(min(first, add_months(last, -11)), last)


def _bounds(
    counts: Iterable[MonthCount], streams: Sequence[VisibleRecords]
) -> tuple[date | None, date | None]:
    """Return the first and the last day; today for one that is not plausible in this month."""
    days = [
        day if is_plausible(stream, day) else today()
        for count in counts
        for stream in (streams[count.number].stream,)
        for moment in (count.first, count.last)
        if moment is not None
        for day in (moment.date() if stream.has_dates_only else to_local_time(moment).date(),)
    ]
    return min(days, default=None), max(days, default=None)


def _chart_text(name: str, records: int, first: date | None, last: date | None) -> str:
    words = f"Records by month in {name}: {pluralize(records, 'record')}"
    if first is None or last is None:
        return words
    return f"{words}, from {format_day(first)} to {format_day(last)}"


def _card(
    connection_id: str,
    counts: Sequence[MonthCount],
    streams: Sequence[VisibleRecords],
    months: Sequence[date],
    *,
    is_demo: bool,
) -> ConnectionCard:
    per_month: Counter[date] = Counter()
    per_stream: Counter[int] = Counter()
    for count in counts:
        per_stream[count.number] += count.records
    plausible = _plausible(counts, streams)
    for month, count in plausible:
        per_month[month] += count.records
    held = [each for each in streams if connection_id in each.connection_for]
    name = held[0].connection_for[connection_id].display_name if held else connection_id
    first, last = _bounds((count for _, count in plausible), streams)
    records = sum(per_stream.values())
    return ConnectionCard(
        connection_id=connection_id,
        name=name,
        source=held[0].source.display_name if held else "",
        is_demo=is_demo,
        records=records,
        first=first,
        last=last,
        freshness=freshness(last),
        is_stale=last is not None and today() - last > STALE,
        chart=month_chart(per_month, months, text=_chart_text(name, records, first, last)),
        streams=[
            StreamLine(
                label=stream_label(each.stream),
                records=per_stream[number],
                url=stream_url(connection_id, each.stream.name),
            )
            for number, each in enumerate(streams)
            if per_stream[number]
        ],
    )


def freshness(last: date | None) -> str:
    """Return how old the newest record is: ``up to today``, ``60 days old``."""
    if last is None:
        return ""
    days = (today() - last).days
    if days <= 0:
        return "up to today" if days == 0 else f"reaches to {format_day(last)}"
    return f"{pluralize(days, 'day')} old" if days < 730 else f"{days // 365} years old"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppReadings:
    """What one app read recently, in words."""

    client_id: str
    name: str
    answers: int
    records: int
    what: str
    last: datetime


def recent_readings(gate: Gate, *, now: datetime) -> list[AppReadings]:
    """Return what each app read in the last days, latest first. Two queries."""
    since, until = last_days(now, RECENT.days)
    readings = list_readings(since=since, until=until, where=APPS)
    totals = sum_by_client(readings)
    names = dict(Client.unscoped.filter(pk__in=totals).values_list("pk", "display_name"))
    labels = {key: facts.display_name for key, facts in gate.scope.connections.items()}
    return [
        AppReadings(
            client_id=client_id,
            name=names.get(client_id, client_id),
            answers=total.answers,
            records=total.records,
            what=_connections(total, labels),
            last=total.last,
        )
        for client_id, total in totals.items()
    ]


def _connections(reading: Reading, labels: Mapping[str, str]) -> str:
    read = {key for key, _ in reading.places}
    known = sorted({labels[key] for key in read if key in labels})
    removed = sum(key not in labels for key in read)
    shown = [
        *(f"“{name}”" for name in known[:3]),
        *([f"{len(known) - 3} more"] if len(known) > 3 else []),
        *([pluralize(removed, "removed connection")] if removed else []),
    ]
    return join_words(shown) if shown else ""
