"""Browse one stream of a connection in the layout that its declared roles choose."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from evidence.access.cursors import decode_cursor, encode_cursor
from evidence.access.gate import Gate
from evidence.access.grant_text import stream_label
from evidence.access.granted_streams import equals_filter
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import within
from evidence.access.records import Keyset, VisibleRecords
from evidence.access.scope import TimeRange
from evidence.errors import ApiException
from evidence.ledger.entries import DisclosedItem
from evidence.reading import records as reading
from evidence.reading.expansion import related_stream
from owner.permissions import owner_required
from owner.records.bookings import bookings
from owner.records.calendar_month import calendar_month
from owner.records.month_counts import cached_month_counts
from owner.records.owner_reads import listed_items, record_owner_read
from owner.records.record_page import record_page
from owner.records.record_roles import (
    Layout,
    RecordSummary,
    StreamRoles,
    relation_label,
    stream_url,
    summarize,
)
from owner.records.search_page import PERIOD, kind_key, period_range
from owner.site import owner

PAGE_SIZE = 50
MAX_PARENTS = 200
CURSOR_KIND = "owner.records"


@dataclass(frozen=True, slots=True)
class Listing:
    """The stream that a page lists, and the parameters of its URL."""

    gate: Gate
    visible: VisibleRecords
    roles: StreamRoles
    params: Mapping[str, str]

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


@require_safe
@owner_required
def record_list(request: HttpRequest, connection_id: str, stream: str) -> HttpResponse:
    """List the records of a stream of a connection; 404 if the owner has no such stream.

    The parameter ``key`` opens a record whose key no path can carry.
    """
    if "key" in request.GET:
        return record_page(request, connection_id, stream, request.GET["key"])
    gate = Gate(owner_scope(owner().pk))
    try:
        visible = gate.stream(stream, connection_id=connection_id)
    except ApiException as refusal:
        raise Http404 from refusal
    params = {name: value.replace("\0", "") for name, value in request.GET.dict().items()}
    listing = Listing(gate, visible, StreamRoles(visible.stream), params)
    with transaction.atomic():
        content = LAYOUTS[listing.roles.layout](listing)
        items = [*listed_items(content.shown), *content.summed]
        record_owner_read(gate.scope, items, route="records")
    context = {
        "title": stream_label(visible.stream),
        "connection": visible.connections[0],
        "tabs": _tabs(gate, visible),
        "search_within": [("connection", connection_id), ("kind", kind_key(visible))],
        **content.context,
    }
    return render(request, f"owner/records/{listing.roles.layout.value}.html", context)


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


def _page(
    listing: Listing, visible: VisibleRecords, **kept: str
) -> tuple[list[RecordSummary], str]:
    """Return up to a page of records, newest first, and the URL of the next page if there is one."""
    query = {"connection": listing.connection_id, "stream": visible.stream.name, **kept}
    after, scope = listing.params.get("after"), listing.gate.scope
    try:
        place = decode_cursor(after, CURSOR_KIND, scope=scope, query=query) if after else None
    except ApiException:
        place = None
    found = reading.page(
        visible,
        limit=PAGE_SIZE,
        descending=True,
        after=None if place is None else Keyset(**place),
        where=(),
    )
    next_url = ""
    if found.has_more:
        last = found.records[-1].position
        place = {
            "sort_key": last.sort_key,
            "record_key": last.record_key,
            "connection_id": last.connection_id,
        }
        cursor = encode_cursor(CURSOR_KIND, scope=scope, query=query, place=place)
        next_url = listing.url(**kept, after=cursor)
    return summarize(visible, found.records), next_url


def _by_day(listing: Listing) -> PageContent:
    """Content of a mailbox or a list: pages of days, newest first, from any year."""
    period = listing.params.get("until", "")
    period = period if PERIOD.fullmatch(period) else ""
    visible = listing.visible
    if period:
        until = period_range(period).until
        visible = within(visible, TimeRange(None, until))
    shown, next_url = _page(listing, visible, until=period)
    years = sorted(
        {
            count.month.year
            for count in cached_month_counts([listing.visible])
            if count.month is not None
        },
        reverse=True,
    )
    context = {
        "days": [(day, list(rows)) for day, rows in groupby(shown, key=lambda each: each.day)],
        "next_url": next_url,
        "is_first": "after" not in listing.params,
        "first_url": listing.url(until=period),
        "years": [(year, listing.url(until=year), str(year) == period[:4]) for year in years],
    }
    return PageContent(context, shown)


def _conversation(listing: Listing) -> PageContent:
    """Content of a chat: the conversations, and the newest messages of the chosen one."""
    relation, visible = listing.roles.parent, listing.visible
    parents = None if relation is None else related_stream(listing.gate, visible, relation)
    if relation is None or parents is None:
        messages, earlier_url = _page(listing, visible)
        return PageContent(_thread(messages, earlier_url), messages)
    found = reading.page(parents, limit=MAX_PARENTS, descending=True, after=None, where=())
    chats = summarize(parents, found.records)
    chats.sort(key=lambda chat: chat.title.casefold())
    chosen = listing.params.get("in", "")
    if not chosen:
        newest = visible.page(limit=1, descending=True)
        chosen = str(newest[0].data.get(relation.foreign_key) or "") if newest else ""
    if chosen:
        visible = visible.filter([equals_filter(visible, relation.foreign_key, chosen, param="in")])
    messages, earlier_url = _page(listing, visible, **{"in": chosen})
    context = {
        **_thread(messages, earlier_url),
        "chats": [(chat.title, listing.url(**{"in": chat.record.record_key}),
                   chat.record.record_key == chosen) for chat in chats],
        "chats_label": relation_label(relation),
        "chat": next((c.title for c in chats if c.record.record_key == chosen), ""),
        "latest_url": listing.url(**{"in": chosen}) if "after" in listing.params else "",
    }  # fmt: skip
    return PageContent(context, [*chats, *messages])


def _thread(messages: Sequence[RecordSummary], earlier_url: str) -> dict[str, Any]:
    """Return messages oldest first, by day."""
    ordered = list(reversed(messages))
    days = [(day, list(rows)) for day, rows in groupby(ordered, key=lambda each: each.day)]
    return {"days": days, "earlier_url": earlier_url}


def _calendar(listing: Listing) -> PageContent:
    month = _chosen_month(listing)
    context, shown = calendar_month(listing.visible, month, url=listing.url)
    return PageContent(context, shown)


def _bookings(listing: Listing) -> PageContent:
    month = _chosen_month(listing)
    context, shown = bookings(listing.visible, listing.roles, month, url=listing.url)
    fields = frozenset(
        filter(None, [listing.roles.amount, listing.visible.stream.event_time_field])
    )
    sums = DisclosedItem(listing.connection_id, listing.visible.stream.name, None, fields)
    return PageContent(context, shown, [sums])


def _chosen_month(listing: Listing) -> date:
    """Return the month of the URL, else this month, or the latest with records before it."""
    period = listing.params.get("month", "")
    if PERIOD.fullmatch(period) and "-" in period:
        year, _, month = period.partition("-")
        return date(int(year), int(month), 1)
    today = timezone.now().date().replace(day=1)
    months = {each.month for each in cached_month_counts([listing.visible]) if each.month}
    return max((month for month in months if month <= today), default=min(months, default=today))


LAYOUTS: Mapping[Layout, Callable[[Listing], PageContent]] = {
    Layout.MAILBOX: _by_day,
    Layout.LIST: _by_day,
    Layout.CONVERSATION: _conversation,
    Layout.CALENDAR: _calendar,
    Layout.BOOKINGS: _bookings,
}
