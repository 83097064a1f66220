"""Browse one stream of a connection in the layout that its declared roles choose, by pages with cursors."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from itertools import groupby
from typing import Any, TypeAlias

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from evidence.access.aggregates import count_by_name, with_name
from evidence.access.crypto import decode_cursor, encode_cursor
from evidence.access.gate import Gate
from evidence.access.grant_text import stream_label
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import count_linked, within
from evidence.access.record_details import fetch_many_related
from evidence.access.records import Keyset, RecordKey, VisibleRecord, VisibleRecords, read_page
from evidence.access.scope import TimeRange
from evidence.access.sql import SQL
from evidence.errors import ApiException
from evidence.ledger.entries import DisclosedItem
from evidence.models.owners import current_owner
from evidence.read.expansion import Children, load_related, parse_expand, related_stream
from evidence.read.filters import key_filter
from owner.permissions import owner_reads
from owner.records.bookings import booking_sums
from owner.records.measure_charts import measure_charts
from owner.records.people_directory import link_people
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
from owner.records.record_page import record_page
from owner.records.record_roles import Layout, StreamRoles, relation_label
from owner.records.record_summaries import (
    RecordSummary,
    listed_items,
    record_owner_read,
    stream_url,
    summarize,
    summed_items,
)
from owner.records.search_page import kind_key
from owner.text import one_line, to_local_time, truncate

PAGE_SIZE = 50
CURSOR_KIND = "owner.records"


@dataclass(frozen=True, slots=True)
class Listing:
    """The stream that a page lists, and the parameters of its URL."""

    gate: Gate
    visible: VisibleRecords
    roles: StreamRoles
    params: Mapping[str, str]

    @property
    def layout(self) -> Layout:
        """The layout of the stream, or the thread that the URL names."""
        is_thread = self.roles.thread is not None and self.params.get("thread")
        return Layout.THREAD if is_thread else self.roles.layout

    @property
    def connection_id(self) -> str:
        return self.visible.connections[0].connection_id

    def url(self, **query: object) -> str:
        return stream_url(self.connection_id, self.visible.stream.name, **query)


@dataclass(frozen=True, slots=True)
class PageContent:
    """Template variables, the records that the page shows, and the streams that it sums up."""

    context: Mapping[str, Any]
    shown: Sequence[RecordSummary]
    summed: Sequence[DisclosedItem] = ()


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of records, newest first; a URL is empty where there are no more records."""

    shown: Sequence[RecordSummary]
    next_url: str = ""
    later_url: str = ""


def page_of(
    listing: Listing, visible: VisibleRecords, kept: Mapping[str, str], *, where: Sequence[SQL] = ()
) -> ListPage:
    """Return a page of records; its URLs keep the parameters `kept`.

    `after` continues with earlier records, `before` with later ones.
    """
    query = {"connection": listing.connection_id, "stream": visible.stream.name, **kept}
    is_later = "before" in listing.params
    place = None
    if cursor := listing.params.get("before") or listing.params.get("after"):
        with suppress(ApiException):
            scope = listing.gate.scope
            place = Keyset(**decode_cursor(cursor, CURSOR_KIND, scope=scope, query=query))
    found = read_page(
        visible,
        limit=PAGE_SIZE,
        descending=not is_later,
        after=place,
        where=where,
    )
    records = found.records[::-1] if is_later else found.records
    if not records:
        return ListPage([])

    def url(param: str, record: VisibleRecord) -> str:
        position = asdict(record.position)
        cursor = encode_cursor(CURSOR_KIND, scope=listing.gate.scope, query=query, place=position)
        return listing.url(**kept, **{param: cursor})

    has_earlier = place is not None if is_later else found.has_more
    has_later = found.has_more if is_later else place is not None
    return ListPage(
        summarize(visible, records),
        url("after", records[-1]) if has_earlier else "",
        url("before", records[0]) if has_later else "",
    )


MAX_PARENTS = 200
MAX_THREAD = 100
MAX_THREAD_CHARS = 40_000
"""Characters of all messages of a thread together."""


def conversation(listing: Listing) -> PageContent:
    """Content of a chat: the conversations, and the newest messages of the chosen one."""
    relation, is_other = listing.roles.parent, listing.params.get("until") == OTHER_DATES
    visible = with_other_dates(listing.visible) if is_other else until_plausible(listing.visible)
    parents = None if relation is None else related_stream(listing.gate, visible, relation)
    chats, chosen = [], "" if is_other else listing.params.get("in", "")
    if parents is not None:
        found = read_page(parents, limit=MAX_PARENTS, descending=True, after=None, where=())
        chats = sorted(summarize(parents, found.records), key=lambda chat: chat.title.casefold())
    where: list[SQL] = []
    if relation is not None and parents is not None and not is_other:
        newest = [] if chosen else visible.page(limit=1, descending=True)
        chosen = str(newest[0].data.get(relation.foreign_key) or "") if newest else chosen
        where = [key_filter(visible, relation.foreign_key, chosen)] if chosen else []
    kept = {"in": chosen, "until": OTHER_DATES if is_other else ""}
    content = _messages(listing, page_of(listing, visible, kept, where=where), kept)
    links = [(chat.title, listing.url(**{"in": chat.record.record_key}),
              chat.record.record_key == chosen) for chat in chats]  # fmt: skip
    if has_other_dates(listing.visible):
        links = links or [("Usual dates", listing.url(), not is_other)]
        links.append(("Other dates", listing.url(until=OTHER_DATES), is_other))
    context = {
        **content.context,
        "chats": links,
        "chats_label": "Dates" if relation is None else relation_label(relation),
        "chat": next((c.title for c in chats if c.record.record_key == chosen), ""),
    }
    return PageContent(context, [*chats, *content.shown])


def _messages(listing: Listing, page: ListPage, kept: Mapping[str, str]) -> PageContent:
    """Content of a conversation: messages oldest first, by day, with their files."""
    messages = page.shown
    files = _files(listing, messages)
    ordered = [(each, files.get(each.record.record_key, ())) for each in reversed(messages)]
    days = [(day, list(rows)) for day, rows in groupby(ordered, key=lambda each: each[0].day)]
    context = {
        "days": days,
        "earlier_url": page.next_url,
        "later_url": page.later_url,
        "latest_url": listing.url(**kept) if page.later_url else "",
    }
    return PageContent(context, [*messages, *(file for each in files.values() for file in each)])


def _files(
    listing: Listing, messages: Sequence[RecordSummary]
) -> Mapping[str, Sequence[RecordSummary]]:
    """Return the records that belong to each message, such as its files. One query a relation."""
    relations = listing.visible.stream.relations.values()
    names = [each.name for each in relations if each.cardinality == "has_many" and each.expandable]
    expansions = parse_expand(listing.gate, listing.visible, names=names, limits=[])
    related = load_related([each.record for each in messages], expansions)
    return {
        message.record.record_key: [
            summary
            for expansion, found in groups
            if isinstance(found, Children)
            for summary in summarize(expansion.child, found.records)
        ]
        for message, groups in zip(messages, related, strict=True)
    }


def thread(listing: Listing) -> PageContent:
    """Content of a thread: its messages, oldest first, each with as much text as fits the page."""
    visible = listing.visible
    key = RecordKey(listing.connection_id, listing.params["thread"])
    found = fetch_many_related(visible, listing.roles.thread or "", [key], limit=MAX_THREAD + 1)
    messages = summarize(visible, reversed(found.get(key, ())[:MAX_THREAD]))
    if not messages:
        raise Http404
    max_chars = MAX_THREAD_CHARS // len(messages)
    context = {
        "subject": messages[0].title,
        "letters": [(each, *truncate(each.text, max_length=max_chars)) for each in messages],
        "has_more": len(found.get(key, ())) > MAX_THREAD,
    }
    return PageContent(context, messages)


YearLink: TypeAlias = tuple[int | str, str, bool]
"""Label, URL and whether it is open."""


@owner_reads
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
        "export_url": reverse("record-export", args=[connection_id, stream]),
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
    return PageContent(context, page.shown, [*summed_items(listing.visible, *fields)])


def _measures(listing: Listing) -> PageContent:
    period, context = _chosen_period(listing)
    roles, visible = listing.roles, listing.visible
    charts = measure_charts(visible, roles, period, is_year=context["is_year"])
    page = page_of(listing, period.of(visible), {"month": context["chosen"]})
    rows = _rows(listing, page, month=context["chosen"])
    fields = (roles.measure, roles.unit, roles.title, visible.stream.consent_time_field)
    return PageContent(
        {**charts, **rows, **context}, page.shown, [*summed_items(listing.visible, *fields)]
    )


MAX_PLACES = 24


def _places(listing: Listing) -> PageContent:
    """Content of a stream of positions: its places by name, and days with their records in order."""
    period, context = _chosen_period(listing)
    chosen, visible, title = context["chosen"], period.of(listing.visible), listing.roles.title
    places = [
        {
            "name": one_line(each.name, max_length=60),
            "records": each.records,
            "last": each.last and to_local_time(each.last).date(),
            "url": listing.url(month=chosen, place=each.name),
        }
        for each in (count_by_name(visible, title, limit=MAX_PLACES) if title else ())
    ]
    place = listing.params.get("place", "") if title else ""
    if title and place:
        visible = visible.filter([with_name(visible, title, place)])
    kept = {"month": chosen, "place": place}
    page = page_of(listing, visible, kept)
    rows = _rows(listing, page, **kept)
    context |= {
        **rows,
        "days": [(day, found[::-1]) for day, found in rows["days"]],
        "places": places,
        "place": one_line(place, max_length=60),
        "everywhere_url": listing.url(month=chosen),
    }
    fields = (*(listing.roles.position or ()), title, visible.stream.consent_time_field)
    return PageContent(context, page.shown, [*summed_items(listing.visible, *fields)])


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
