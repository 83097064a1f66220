"""Everything of one day, from all sources in one order."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TypeAlias

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from evidence.access.gate import Gate
from evidence.access.grant_text import stream_label
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import MonthCount
from evidence.access.records import VisibleRecords
from evidence.models.owners import current_owner
from owner.charts import add_months
from owner.permissions import owner_reads
from owner.records.people_directory import link_people
from owner.records.periods import Period, cached_month_counts, one_day, today
from owner.records.record_roles import Layout, StreamRoles
from owner.records.record_summaries import (
    RecordSummary,
    are_all_demo,
    listed_items,
    record_owner_read,
)
from owner.site import link

MAX_PER_STREAM = 40
MAX_OF_ONE_STREAM = 150
PLAIN_LAYOUTS = frozenset({Layout.LIST, Layout.MEASURES})
MAX_SEPARATE = 6
"""Records without text, such as measurements, are grouped if a stream has more of them."""
EARLIER_YEARS = 10

StreamsByMonth: TypeAlias = Mapping[date, set[int]]
"""Positions of the streams that have records in a month."""


@dataclass(frozen=True, slots=True)
class EarlierYear:
    day: date
    records: Sequence[RecordSummary]
    has_more: bool
    url: str


@owner_reads
def today_page(request: HttpRequest) -> HttpResponse:
    """Redirect to the chosen day, or to today."""
    return redirect("day", request.GET.get("day") or today().isoformat())


@owner_reads
def day_page(request: HttpRequest, day: str) -> HttpResponse:
    """Show the records of a day, ``2026-11-20``, and of the same day in earlier years.

    `only`, such as ``cin_1/messages``, shows more records of one stream.
    """
    chosen = _parse_day(day)
    gate = Gate(owner_scope(current_owner()))
    streams = [each for each in gate.streams() if is_timed(each)]
    only = _one_stream(streams, request.GET.get("only", ""))
    limit = MAX_OF_ONE_STREAM if only else MAX_PER_STREAM
    numbers_of = streams_by_month(cached_month_counts(streams), streams)
    with transaction.atomic():
        records, truncated = _records_of(only or streams, chosen, limit=limit)
        earlier = earlier_years(streams, chosen, numbers_of)
        shown = [*records, *(record for year in earlier for record in year.records)]
        record_owner_read(gate.scope, listed_items(shown), route="day")
    link_people(shown)
    context = {
        "here": "day",
        "day": chosen,
        "all_day": [each for each in records if not each.has_clock],
        "groups": _groups([each for each in records if each.has_clock]),
        "count": len(records),
        "has_connections": bool(gate.scope.connections),
        "is_all_demo": are_all_demo(shown),
        "truncated": _more_links(truncated, chosen),
        "is_cut": bool(truncated and only),
        "earlier_day": nearest_day(streams, chosen, numbers_of, later=False)
        if not records
        else None,
        "later_day": nearest_day(streams, chosen, numbers_of, later=True) if not records else None,
        "day_url": reverse("day", args=[chosen.isoformat()]) if only else "",
        "earlier": earlier,
        "before": chosen - timedelta(days=1),
        "after": chosen + timedelta(days=1),
    }
    return render(request, "owner/records/day.html", context)


def is_timed(visible: VisibleRecords) -> bool:
    """Return whether the records of a stream have a day."""
    return bool(visible.stream.consent_time_field and visible.stream.event_time_field)


def _one_stream(streams: Sequence[VisibleRecords], place: str) -> list[VisibleRecords]:
    """Return the stream of a connection that the URL names; empty if it names none."""
    connection_id, _, name = place.partition("/")
    return [
        each.for_connection(connection_id)
        for each in streams
        if each.stream.name == name and connection_id in each.connection_for
    ]


def _parse_day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise Http404 from None
    if not 1 < day.year < 9999:
        raise Http404
    return day


def _more_links(streams: Sequence[VisibleRecords], day: date) -> list[tuple[str, str]]:
    """Return label and URL of the day for each connection of streams with more records."""
    return [
        (
            f"{stream_label(each.stream)}, {facts.display_name}",
            link("day", day.isoformat(), only=f"{facts.connection_id}/{each.stream.name}"),
        )
        for each in streams
        for facts in each.connections
    ]


def _records_of(
    streams: Sequence[VisibleRecords], day: date, *, limit: int
) -> tuple[list[RecordSummary], list[VisibleRecords]]:
    """Return the records of a day by time, and the streams with more. One query a stream."""
    records: list[RecordSummary] = []
    truncated: list[VisibleRecords] = []
    for visible in streams:
        found, has_more = one_day(day).first_records(visible, limit=limit)
        truncated += [visible] if has_more else []
        records += found
    records.sort(key=lambda each: (each.clock, each.visible.source.connector_key))
    return records, truncated


def _groups(records: Sequence[RecordSummary]) -> list[list[RecordSummary]]:
    """Return the records in order; many plain values of one stream are one group, at the first."""
    plain: dict[tuple[str, str], list[RecordSummary]] = defaultdict(list)
    for record in records:
        # Visits have names and belong between the other records of a day; positions do not.
        is_position = record.roles.layout == Layout.PLACES and record.roles.title is None
        if is_position or record.roles.layout in PLAIN_LAYOUTS:
            plain[record.connection_id, record.visible.stream.name].append(record)
    groups = []
    for record in records:
        rows = plain.get((record.connection_id, record.visible.stream.name), [])
        if len(rows) <= MAX_SEPARATE:
            groups.append([record])
        elif rows[0] is record:
            groups.append(rows)
    return groups


def earlier_years(
    streams: Sequence[VisibleRecords],
    day: date,
    numbers_of: StreamsByMonth,
    *,
    most: int = EARLIER_YEARS,
    without: Layout | None = None,
) -> list[EarlierYear]:
    """Return the same day of the latest earlier years that have records with words.

    One query for each stream with records in the month of such a day.
    """
    years: list[EarlierYear] = []
    for count in range(1, EARLIER_YEARS + 1):
        try:
            other = day.replace(year=day.year - count)
        except ValueError:  # 29 February, or the year 0
            continue
        if len(years) == most:
            break
        found = [streams[number] for number in sorted(numbers_of.get(other.replace(day=1), ()))]
        worded = [
            each
            for each in found
            if each.stream.lexical_fields and StreamRoles(each.stream).layout != without
        ]
        records, _ = _records_of(worded, other, limit=2)
        if records:
            url = reverse("day", args=[other.isoformat()])
            years.append(EarlierYear(other, records[:3], len(records) > 3, url))
    return years


def streams_by_month(
    counts: Iterable[MonthCount], streams: Sequence[VisibleRecords]
) -> StreamsByMonth:
    """Return the positions of the timed streams with records by month, without impossible years."""
    numbers_of: dict[date, set[int]] = defaultdict(set)
    timed = {number for number, each in enumerate(streams) if is_timed(each)}
    for count in counts:
        if count.number in timed and count.month is not None and 1 < count.month.year < 9999:
            numbers_of[count.month].add(count.number)
    return numbers_of


def nearest_day(
    streams: Sequence[VisibleRecords], day: date, numbers_of: StreamsByMonth, *, later: bool
) -> date | None:
    """Return the nearest day with records of a plausible date. One query a stream of its month."""
    this_month = day.replace(day=1)
    for month in sorted(numbers_of, reverse=not later):
        if month < this_month if later else month > this_month:
            continue
        # A month in the owner's time zone may end a day before the dates of its records.
        span = Period(month - timedelta(days=1), add_months(month, 1) + timedelta(days=1))
        side = span.after(day) if later else span.before(day)
        days = [edge for number in numbers_of[month] for edge in side.edges(streams[number])]
        if days:
            return min(days) if later else max(days)
    return None
