"""Search the owner's records: hits, facets and a month histogram, all of it in the URL."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import urlencode

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from evidence.access.cursors import decode_cursor, encode_cursor
from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import MonthCount
from evidence.access.records import VisibleRecords
from evidence.access.scope import Scope
from evidence.errors import ApiException
from evidence.ledger.entries import DisclosedItem
from evidence.reading.search import count_by_month, search
from evidence.search.query_planner import LEXICAL
from evidence.search.results import Excerpt, Hit, SearchRequest, SearchResult
from owner.charts import Chart, add_months, month_chart, months_between
from owner.permissions import owner_required
from owner.records.owner_reads import narrowed, record_owner_read
from owner.records.periods import PERIOD, parse_period, zone_name
from owner.records.person_links import link_people
from owner.records.record_roles import StreamRoles
from owner.records.record_summaries import RecordSummary, short_label
from owner.site import owner
from owner.text import escape_invisible, pluralize

PAGE_SIZE = 20
CURSOR_KIND = "owner.search"
FACETS = ("source", "connection", "kind", "year")
FACET_LABELS = {"source": "Source", "connection": "Connection", "kind": "Kind", "year": "Year"}


@dataclass(frozen=True, slots=True)
class Filters:
    """The search as the URL has it; empty strings do not restrict."""

    q: str
    source: str
    connection: str
    kind: str
    period: str
    sort: str
    after: str

    @classmethod
    def of(cls, request: HttpRequest) -> "Filters":
        given = {name: request.GET.get(name, "").replace("\0", "") for name in cls.__slots__}
        if not PERIOD.fullmatch(given["period"]):
            given["period"] = ""
        return cls(**given)

    def url(self, **changes: str) -> str:
        """Return the URL of the search with changes, from its first page."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "after"}
        chosen = {name: value for name, value in {**values, **changes}.items() if value}
        return f"{reverse('search')}?{urlencode(chosen)}"

    @property
    def query(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "after"}


@dataclass(frozen=True, slots=True)
class HitRow:
    """A hit with its heading and other excerpts, as safe HTML with marked matches."""

    summary: RecordSummary
    heading: SafeString
    excerpts: Sequence[SafeString]


@dataclass(frozen=True, slots=True)
class FacetValue:
    label: str
    count: int
    url: str
    is_selected: bool


@dataclass(frozen=True, slots=True)
class Facet:
    label: str
    values: Sequence[FacetValue]


@require_safe
@owner_required
def search_page(request: HttpRequest) -> HttpResponse:
    """Show one page of hits, or only the search box if there is no query."""
    filters = Filters.of(request)
    context = {"query": filters.q, "filters": filters}
    if filters.q.strip():
        try:
            context |= _results(filters)
        except ApiException as refusal:
            context |= {"refusal": refusal.message}
    return render(request, "owner/records/search.html", context)


def _results(filters: Filters) -> dict[str, object]:
    scope = owner_scope(owner().pk)
    source, _, stream = filters.kind.rpartition("/")
    gate = Gate(
        narrowed(scope, parse_period(filters.period)), connector_id=filters.source or source or None
    )
    after = (
        decode_cursor(filters.after, CURSOR_KIND, scope=scope, query=filters.query)
        if filters.after
        else None
    )
    request = SearchRequest(
        q=filters.q,
        mode=LEXICAL,
        streams=[stream] if stream else None,
        connection_id=filters.connection or None,
        filters=(),
        limit=PAGE_SIZE,
        newest_first=filters.sort == "newest",
        after=after,
    )
    with transaction.atomic():
        found = search(gate, request)
        rows = [_row(hit) for hit in found.hits]
        record_owner_read(scope, _disclosed(found), route="search")
    link_people(row.summary for row in rows)
    counts = count_by_month(Gate(scope), found, time_zone=zone_name())
    return {
        "found": found,
        "rows": rows,
        "amount": _amount(found),
        "suggestions": _suggestions(filters, found),
        "facets": _facets(filters, counts),
        "chart": _histogram(filters, counts),
        "next_url": _next_url(filters, scope, found),
        "best_url": filters.url(sort=""),
        "newest_url": filters.url(sort="newest"),
        "clear_url": filters.url(source="", connection="", kind="", period=""),
        "is_filtered": any((filters.source, filters.connection, filters.kind, filters.period)),
    }


def _next_url(filters: Filters, scope: Scope, found: SearchResult) -> str:
    if not found.has_more or not found.hits:
        return ""
    state = found.cursor_state(len(found.hits))
    cursor = encode_cursor(CURSOR_KIND, scope=scope, query=filters.query, place=state)
    return f"{filters.url()}&{urlencode({'after': cursor})}"


def _row(hit: Hit) -> HitRow:
    summary = RecordSummary(hit.visible, hit.record, StreamRoles(hit.visible.stream))
    title = summary.roles.title if summary.line(summary.roles.title) else summary.roles.text
    heading = next((each for each in hit.excerpts if each.field == title), None)
    others = [_excerpt_html(each) for each in hit.excerpts if each is not heading]
    return HitRow(
        summary,
        escape(summary.title) if heading is None else _excerpt_html(heading),
        [text for text in others if text != escape(summary.actor)][:2],
    )


def _excerpt_html(excerpt: Excerpt) -> SafeString:
    """Return a passage on one line with its matches in `mark` elements."""
    passage, text = excerpt.passage, excerpt.text
    pieces, at = [escape("…" if passage.start else "")], passage.start
    for start, end in passage.marks:
        pieces.append(_inert(text[at:start]))
        pieces.append(format_html("<mark>{}</mark>", _inert(text[start:end])))
        at = end
    pieces.append(_inert(text[at : passage.end]))
    pieces.append(escape("…" if passage.end < len(text) else ""))
    return mark_safe("".join(pieces))  # noqa: S308 - every piece is escaped


def _inert(text: str) -> SafeString:
    return escape(re.sub(r"\s+", " ", escape_invisible(text)))


def _disclosed(found: SearchResult) -> list[DisclosedItem]:
    """Return the hits, with the fields of their rows and excerpts, and what suggestions disclose."""
    items = [
        DisclosedItem(
            *hit.key,
            _row(hit).summary.listed_fields | {each.field for each in hit.excerpts},
        )
        for hit in found.hits
    ]
    suggested = (
        DisclosedItem(each.connection_id, each.stream, each.record_key, each.fields)
        for each in found.holders
    )
    return [*items, *suggested]


def _amount(found: SearchResult) -> str:
    if found.count is None:
        return ""
    words = pluralize(found.count, "record")
    return f"More than {words}" if found.lower_bound else words


def _suggestions(filters: Filters, found: SearchResult) -> list[tuple[str, str]]:
    """Return spellings that occur, each with the search for it."""
    return [
        (other, filters.url(q=re.sub(re.escape(word), other, filters.q, flags=re.IGNORECASE)))
        for word, others in found.suggestions.items()
        for other in others
    ]


def kind_key(visible: VisibleRecords) -> str:
    """Return the key of a stream among all sources, as the URL has it."""
    return f"{visible.source.connector_key}/{visible.stream.name}"


Counts = Sequence[tuple[VisibleRecords, MonthCount]]
KEYS: Mapping[str, Callable[[VisibleRecords, MonthCount], str]] = {
    "source": lambda visible, count: visible.source.connector_key,
    "connection": lambda visible, count: count.connection_id,
    "kind": lambda visible, count: kind_key(visible),
    "year": lambda visible, count: "" if count.month is None else str(count.month.year),
}
LABELS: Mapping[str, Callable[[VisibleRecords, MonthCount], str]] = {
    "source": lambda visible, count: visible.source.display_name,
    "connection": lambda visible, count: visible.connection_for[count.connection_id].display_name,
    "kind": lambda visible, count: short_label(visible.stream),
    "year": KEYS["year"],
}


def _matching(filters: Filters, counts: Counts, *, without: str) -> Counts:
    """Return the counts that satisfy every filter except one."""
    wanted = {"source": filters.source, "connection": filters.connection, "kind": filters.kind}
    wanted = {name: value for name, value in wanted.items() if value and name != without}
    period = "" if without == "year" else filters.period
    return [
        (visible, count)
        for visible, count in counts
        if all(KEYS[name](visible, count) == value for name, value in wanted.items())
        and (not period or (count.month is not None and f"{count.month:%Y-%m}".startswith(period)))
    ]


def _facets(filters: Filters, counts: Counts) -> list[Facet]:
    """Return the facets with more than one value, or with the selected one."""
    facets = []
    for name in FACETS:
        totals: Counter[str] = Counter()
        labels: dict[str, str] = {}
        for visible, count in _matching(filters, counts, without=name):
            if key := KEYS[name](visible, count):
                totals[key] += count.records
                labels.setdefault(key, LABELS[name](visible, count))
        selected = filters.period[:4] if name == "year" else getattr(filters, name)
        param = "period" if name == "year" else name
        order = (
            sorted(totals, reverse=True) if name == "year" else [k for k, _ in totals.most_common()]
        )
        values = [
            FacetValue(
                labels[key], totals[key],
                filters.url(**{param: "" if key == selected else key}), key == selected,
            )
            for key in order[:12]
        ]  # fmt: skip
        if len(values) > 1 or selected:
            facets.append(Facet(FACET_LABELS[name], values))
    return facets


def _histogram(filters: Filters, counts: Counts) -> Chart | None:
    """Return the matches by month: of the selected year, or of all years."""
    months: Counter[date] = Counter()
    for _, count in _matching(filters, counts, without="year"):
        if count.month is not None:
            months[count.month] += count.records
    year = filters.period[:4]
    if year:
        shown = months_between(date(int(year), 1, 1), date(int(year), 12, 1))
    elif months:
        shown = months_between(max(min(months), add_months(max(months), -119)), max(months))
    else:
        return None
    period = parse_period(filters.period)
    chosen = period.first if period and "-" in filters.period else None
    urls = {
        month: filters.url(period=year if month == chosen else f"{month:%Y-%m}") for month in shown
    }
    return month_chart(months, shown, text="Matches by month", urls=urls, selected=chosen)
