"""Browse one stream of a connection in the layout that its declared roles choose."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import groupby
from typing import Any, TypeAlias

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evidence.access.gate import Gate
from evidence.access.grant_text import stream_label
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import count_linked, within
from evidence.access.records import VisibleRecords
from evidence.access.scope import TimeRange
from evidence.errors import ApiException
from evidence.ledger.entries import DisclosedItem
from evidence.models.owners import current_owner
from owner.permissions import owner_required
from owner.records.bookings import booking_sums
from owner.records.conversations import conversation, thread
from owner.records.measure_charts import measure_charts
from owner.records.owner_reads import listed_items, record_owner_read
from owner.records.periods import (
    OTHER_DATES,
    Period,
    cached_month_counts,
    calendar_month,
    has_other_dates,
    month_links,
    one_month,
    parse_period,
    plausible_period,
    today,
    until_plausible,
    with_other_dates,
)
from owner.records.person_links import link_people
from owner.records.places import list_places, near_position
from owner.records.record_lists import Listing, ListPage, PageContent, page_of
from owner.records.record_page import record_page
from owner.records.record_roles import Layout, StreamRoles
from owner.records.record_summaries import RecordSummary
from owner.records.record_urls import stream_url
from owner.records.search_facets import kind_key

YearLink: TypeAlias = tuple[int | str, str, bool]
"""Label, URL and whether it is open."""


@require_safe
@owner_required
def record_list(request: HttpRequest, connection_id: str, stream: str) -> HttpResponse:
    """List the records of a stream of a connection; 404 if the owner has no such stream.

    The parameter ``key`` opens a record whose key no path can carry.
    """
    if "key" in request.GET:
        return record_page(request, connection_id, stream, request.GET["key"])
    gate = Gate(owner_scope(current_owner()))
    try:
        visible = gate.stream(stream, connection_id=connection_id)
    except ApiException as refusal:
        raise Http404 from refusal
    params = {name: value.replace("\0", "") for name, value in request.GET.dict().items()}
    listing = Listing(gate, visible, StreamRoles(visible.stream), params)
    with transaction.atomic():
        content = LAYOUTS[listing.layout](listing)
        items = [*listed_items(content.shown), *content.summed]
        record_owner_read(gate.scope, items, route="records")
    link_people(content.shown)
    context = {
        "title": stream_label(visible.stream),
        "connection": visible.connections[0],
        "tabs": _tabs(gate, visible),
        "search_within": [("connection", connection_id), ("kind", kind_key(visible))],
        **content.context,
    }
    return render(request, f"owner/records/{listing.layout.value}.html", context)


def _tabs(gate: Gate, visible: VisibleRecords) -> list[tuple[str, str, bool]]:
    """Return label, URL and whether it is open, of each stream of the connection."""
    [facts] = visible.connections
    streams = gate.streams(connection_id=facts.connection_id)
    return [
        (
            stream_label(each.stream),
            stream_url(facts.connection_id, each.stream.name),
            each.stream.name == visible.stream.name,
        )
        for each in streams
    ]


def _by_day(listing: Listing) -> PageContent:
    """Content of a mailbox or a list: pages of days, newest first, from any year."""
    until = listing.params.get("until", "")
    period, visible = parse_period(until), until_plausible(listing.visible)
    if period:
        visible = within(visible, TimeRange(None, period.time_range(visible.stream).until))
    elif until == OTHER_DATES:
        visible = with_other_dates(listing.visible)
    kept = {"until": until if period or until == OTHER_DATES else ""}
    page = page_of(listing, visible, kept)
    _set_threads(listing, page.shown)
    years = _years_and_other_dates(listing, until)
    return PageContent({**_rows(listing, page, **kept), "years": years}, page.shown)


def _rows(listing: Listing, page: ListPage, **kept: str) -> dict[str, Any]:
    """Return the template variables of one page of rows by day."""
    return {
        "days": [(day, list(rows)) for day, rows in groupby(page.shown, key=lambda each: each.day)],
        "next_url": page.next_url,
        "later_url": page.later_url,
        "first_url": listing.url(**kept),
    }


def _years(listing: Listing, param: str, chosen: str) -> tuple[list[YearLink], list[YearLink]]:
    """Return links to the years with records: plausible ones, and others."""
    counts = cached_month_counts([listing.visible])
    plausible = plausible_period(listing.visible.stream)
    links: tuple[list[YearLink], list[YearLink]] = [], []
    for year in sorted({each.month.year for each in counts if each.month}, reverse=True):
        link = (year, listing.url(**{param: year}), str(year) == chosen[:4])
        links[not plausible.first.year <= year <= plausible.last.year].append(link)
    return links


def _years_and_other_dates(listing: Listing, chosen: str) -> list[YearLink]:
    """Return links to the years with records, then to other dates; none for one year alone."""
    years, _ = _years(listing, "until", chosen)
    if has_other_dates(listing.visible):
        url = listing.url(until=OTHER_DATES)
        return [*years, ("Other dates", url, chosen == OTHER_DATES)]
    return years if len(years) > 1 else []


def _set_threads(listing: Listing, shown: Sequence[RecordSummary]) -> None:
    """Set the size of the thread of each record. One query, or none without threads."""
    field = listing.roles.thread
    if field is not None:
        threads = {each.thread for each in shown if each.thread}
        sizes = count_linked(listing.visible, field, threads)
        for each in shown:
            each.thread_size = sizes.get(each.thread or "", 0)


def _calendar(listing: Listing) -> PageContent:
    month = _chosen_month(listing)
    context, shown = calendar_month(listing.visible, month, url=listing.url)
    return PageContent(context, shown)


def _bookings(listing: Listing) -> PageContent:
    month, visible = _chosen_month(listing), listing.visible
    sums = booking_sums(
        visible, listing.roles, month, listing.params.get("currency", ""), url=listing.url
    )
    kept = {"month": f"{month:%Y-%m}", "currency": listing.params.get("currency", "")}
    page = page_of(listing, one_month(month).of(visible), kept)
    roles = listing.roles
    fields = (roles.amount, roles.currency, roles.category, visible.stream.consent_time_field)
    context = {**sums, **_rows(listing, page, **kept)}
    return PageContent(context, page.shown, [_summed(listing, *fields)])


def _measures(listing: Listing) -> PageContent:
    period, context = _chosen_period(listing)
    roles, visible = listing.roles, listing.visible
    charts = measure_charts(visible, roles, period, is_year=context["is_year"])
    page = page_of(listing, period.of(visible), {"month": context["chosen"]})
    rows = _rows(listing, page, month=context["chosen"])
    fields = (roles.measure, roles.unit, roles.title, visible.stream.consent_time_field)
    return PageContent({**charts, **rows, **context}, page.shown, [_summed(listing, *fields)])


def _places(listing: Listing) -> PageContent:
    period, context = _chosen_period(listing)
    chosen, visible, roles = context["chosen"], period.of(listing.visible), listing.roles
    places = list_places(visible, roles, url=lambda at: listing.url(month=chosen, near=at))
    condition = near_position(listing.params.get("near", ""), visible, roles)
    if condition is not None:
        visible = visible.filter([condition])
    kept = {"month": chosen, "near": listing.params["near"] if condition else ""}
    page = page_of(listing, visible, kept)
    context |= {
        **_rows(listing, page, **kept),
        "places": places,
        "is_near": condition is not None,
        "everywhere_url": listing.url(month=chosen),
    }
    fields = (*(roles.position or ()), roles.title, visible.stream.consent_time_field)
    return PageContent(context, page.shown, [_summed(listing, *fields)])


def _summed(listing: Listing, *fields: str | None) -> DisclosedItem:
    """Return the fields of the stream that a page sums up, for the ledger."""
    names = frozenset(filter(None, fields))
    return DisclosedItem(listing.connection_id, listing.visible.stream.name, None, names)


def _chosen_period(listing: Listing) -> tuple[Period, dict[str, Any]]:
    """Return the month or year of the URL, else the latest month, with its template variables."""
    text = listing.params.get("month", "")
    year = parse_period(text) if "-" not in text else None
    month = _chosen_month(listing) if year is None else year.first
    chosen = text if year else f"{month:%Y-%m}"
    years, others = _years(listing, "month", text if year else "")
    context = {
        **month_links(month, url=listing.url),
        "chosen": chosen,
        "is_year": year is not None,
        "years": [*years, *(link for link in others if parse_period(str(link[0])))],
    }
    return year or one_month(month), context


def _chosen_month(listing: Listing) -> date:
    """Return the month of the URL, else this month, or the latest with records before it."""
    text = listing.params.get("month", "")
    period = parse_period(text) if "-" in text else None
    if period is not None:
        return period.first
    this_month = today().replace(day=1)
    months = {each.month for each in cached_month_counts([listing.visible]) if each.month}
    latest = min(months, default=this_month)
    return max((month for month in months if month <= this_month), default=latest)


LAYOUTS: Mapping[Layout, Callable[[Listing], PageContent]] = {
    Layout.MAILBOX: _by_day,
    Layout.LIST: _by_day,
    Layout.CONVERSATION: conversation,
    Layout.THREAD: thread,
    Layout.CALENDAR: _calendar,
    Layout.BOOKINGS: _bookings,
    Layout.MEASURES: _measures,
    Layout.PLACES: _places,
}
