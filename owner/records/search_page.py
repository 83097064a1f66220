"""Search the owner's records: hits, facets and a month histogram, all of it in the URL."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, TypeAlias
from urllib.parse import urlencode

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from evidence.access.crypto import decode_cursor, encode_cursor
from evidence.access.gate import Gate
from evidence.access.grant_text import stream_label
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import MonthCount, outside
from evidence.access.records import VisibleRecords
from evidence.access.scope import Scope
from evidence.errors import ApiException
from evidence.ledger.entries import DisclosedItem
from evidence.models.owners import current_owner
from evidence.read.search import MatchCounts, count_by_month, search
from evidence.search.results import Excerpt, Hit, SearchRequest, SearchResult
from evidence.search.semantic import LEXICAL
from owner.charts import Chart, add_months, month_chart, months_between
from owner.permissions import owner_reads
from owner.records.people_directory import link_people
from owner.records.periods import (
    OTHER_DATES,
    PERIOD,
    cached_month_counts,
    is_plausible,
    parse_period,
    plausible_period,
    until_plausible,
    zone_name,
)
from owner.records.record_files import json_line, json_lines
from owner.records.record_roles import StreamRoles
from owner.records.record_summaries import RecordSummary, are_all_demo, record_owner_read
from owner.site import link
from owner.text import escape_invisible, pluralize

MAX_VALUES = 12
FACETS = ("connection", "kind", "year")
FACET_LABELS = {"connection": "Connection", "kind": "Kind", "year": "Year"}
YEAR_LABELS = {OTHER_DATES: "Other dates"}


@dataclass(frozen=True, slots=True)
class Filters:
    """The search as the URL has it; empty strings do not restrict."""

    q: str
    connection: str
    kind: str
    period: str
    sort: str
    after: str

    @classmethod
    def of(cls, request: HttpRequest) -> "Filters":
        given = {name: request.GET.get(name, "").replace("\0", "") for name in cls.__slots__}
        if given["period"] != OTHER_DATES and not PERIOD.fullmatch(given["period"]):
            given["period"] = ""
        return cls(**given)

    @property
    def year(self) -> str:
        """The year of the period, or ``other``."""
        return self.period if self.period == OTHER_DATES else self.period[:4]

    def url(self, **changes: str) -> str:
        """Return the URL of the search with changes, from its first page."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "after"}
        return link("search", **{**values, **changes})

    @property
    def query(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "after"}


def kind_key(visible: VisibleRecords) -> str:
    """Return the key of a stream among all sources, as the URL has it."""
    return f"{visible.source.connector_key}/{visible.stream.name}"


Counts = Sequence[tuple[VisibleRecords, MonthCount]]


def _year(visible: VisibleRecords, count: MonthCount) -> str:
    """Return the year of a month, or ``other`` if it is not plausible; empty without one."""
    if count.month is None:
        return ""
    return str(count.month.year) if is_plausible(visible.stream, count.month) else OTHER_DATES


KEYS: Mapping[str, Callable[[VisibleRecords, MonthCount], str]] = {
    "connection": lambda visible, count: count.connection_id,
    "kind": lambda visible, count: kind_key(visible),
    "year": _year,
}
LABELS: Mapping[str, Callable[[VisibleRecords, MonthCount], str]] = {
    "connection": lambda visible, count: visible.connection_for[count.connection_id].display_name,
    "kind": lambda visible, count: stream_label(visible.stream),
    "year": lambda visible, count: YEAR_LABELS.get(year := _year(visible, count), year),
}


def _matching(filters: Filters, counts: Counts, *, without: str) -> Counts:
    """Return the counts that satisfy every filter except one."""
    wanted = {"connection": filters.connection, "kind": filters.kind}
    wanted = {name: value for name, value in wanted.items() if value and name != without}
    period = "" if without == "year" else filters.period
    return [
        (visible, count)
        for visible, count in counts
        if all(KEYS[name](visible, count) == value for name, value in wanted.items())
        and (not period or _is_in(period, visible, count))
    ]


def _is_in(period: str, visible: VisibleRecords, count: MonthCount) -> bool:
    if period == OTHER_DATES:
        return _year(visible, count) == OTHER_DATES
    return count.month is not None and f"{count.month:%Y-%m}".startswith(period)


def facets_of(filters: Filters, counts: MatchCounts) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return label and values of the facets with more than one value, or with the selected one."""
    facets = []
    for name in FACETS:
        totals: Counter[str] = Counter()
        labels: dict[str, str] = {}
        for visible, count in _matching(filters, counts.months, without=name):
            if key := KEYS[name](visible, count):
                totals[key] += count.records
                labels.setdefault(key, LABELS[name](visible, count))
        selected = filters.year if name == "year" else getattr(filters, name)
        param = "period" if name == "year" else name
        order = [key for key, _ in totals.most_common()]
        if name == "year":
            # The other dates are the last of the twelve.
            order = [*sorted(totals.keys() - YEAR_LABELS, reverse=True)[: MAX_VALUES - 1],
                     *(totals.keys() & YEAR_LABELS)]  # fmt: skip
        values = [
            {
                "label": labels[key],
                "count": _rounded(totals[key]) if counts.is_estimate else totals[key],
                "url": filters.url(**{param: "" if key == selected else key}),
                "is_selected": key == selected,
            }
            for key in order[:MAX_VALUES]
        ]
        if len(values) > 1 or selected:
            facets.append((FACET_LABELS[name], values))
    return facets


def _rounded(count: int) -> int:
    """Return an estimate with two digits."""
    return round(count, min(0, 2 - len(str(count))))


def histogram_of(filters: Filters, counts: MatchCounts) -> Chart | None:
    """Return the matches by month: of the selected year, or of all years."""
    months: Counter[date] = Counter()
    for visible, count in _matching(filters, counts.months, without="year"):
        if count.month is not None and _year(visible, count) != OTHER_DATES:
            months[count.month] += count.records
    if counts.is_estimate:
        months = Counter({month: _rounded(count) for month, count in months.items()})
    year = filters.year
    if year == OTHER_DATES:
        return None
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
    text = "Matches by month, estimated" if counts.is_estimate else "Matches by month"
    return month_chart(months, shown, text=text, urls=urls, selected=chosen)


PAGE_SIZE = 20
EXPORT_BATCH = 100
CURSOR_KIND = "owner.search"
Restriction: TypeAlias = Callable[[VisibleRecords], VisibleRecords]
HitRow: TypeAlias = tuple[RecordSummary, SafeString, list[SafeString]]


@owner_reads
def search_page(request: HttpRequest) -> HttpResponse:
    """Show one page of hits, or only the search box if there is no query."""
    filters = Filters.of(request)
    scope = owner_scope(current_owner())
    context = {"query": filters.q, "filters": filters, "has_connections": bool(scope.connections)}
    if filters.q.strip():
        try:
            context |= _results(filters, scope)
        except ApiException as refusal:
            context |= {"refusal": refusal.message}
    return render(request, "owner/records/search.html", context)


@owner_reads
def export_search(request: HttpRequest) -> HttpResponseBase:
    """Stream all records that a search finds as JSON lines; the search page says why it cannot."""
    filters = replace(Filters.of(request), after="")
    scope = owner_scope(current_owner())
    try:
        _search(filters, scope, limit=1)
    except ApiException:
        return redirect(filters.url())
    return json_lines(_exported_lines(filters, scope), "search")


def _exported_lines(filters: Filters, scope: Scope) -> Iterator[bytes]:
    """Yield the hits in the order of the search, each page after its entry in the ledger."""
    while True:
        with transaction.atomic():
            found = _search(filters, scope, limit=EXPORT_BATCH)
            items = [DisclosedItem(*hit.key, frozenset(hit.record.data)) for hit in found.hits]
            if items:
                record_owner_read(scope, items, route="export")
        yield from (json_line(hit.record, stream=hit.visible.stream.name) for hit in found.hits)
        if not found.has_more or not found.hits:
            return
        filters = replace(filters, after=_cursor(filters, scope, found))


def _search(filters: Filters, scope: Scope, *, limit: int) -> SearchResult:
    """Return one page of hits. Raises ApiException for a query or cursor that is not valid."""
    source, _, stream = filters.kind.rpartition("/")
    gate = Gate(scope, connector_id=source or None)
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
        limit=limit,
        newest_first=filters.sort == "newest",
        after=after,
        count_phrases=False,
        restrict=_restriction(filters),
    )
    return search(gate, request)


def _results(filters: Filters, scope: Scope) -> dict[str, object]:
    with transaction.atomic():
        found = _search(filters, scope, limit=PAGE_SIZE)
        rows = [_row(hit) for hit in found.hits]
        record_owner_read(scope, _disclosed(found, rows), route="search")
    link_people(summary for summary, *_ in rows)
    return {
        "found": found,
        "rows": rows,
        "is_all_demo": are_all_demo(summary for summary, *_ in rows),
        "amount": _amount(found),
        "suggestions": [
            (other, filters.url(q=re.sub(re.escape(word), other, filters.q, flags=re.IGNORECASE)))
            for word, others in found.suggestions.items()
            for other in others
        ],
        **_counts(filters, scope, found),
        "next_url": _next_url(filters, scope, found),
        "export_url": filters.url().replace(reverse("search"), reverse("search-export"), 1),
        "best_url": filters.url(sort=""),
        "newest_url": filters.url(sort="newest"),
        "clear_url": filters.url(connection="", kind="", period=""),
        "is_filtered": any((filters.connection, filters.kind, filters.period)),
    }


def _restriction(filters: Filters) -> Restriction | None:
    """Return what keeps the records of the period; newest first means newest plausible first."""
    if filters.period == OTHER_DATES:
        return lambda each: outside(each, *plausible_period(each.stream).bounds(each.stream))
    period = parse_period(filters.period)
    if period is not None:
        return period.of
    return until_plausible if filters.sort == "newest" else None


def _counts(filters: Filters, scope: Scope, found: SearchResult) -> dict[str, object]:
    """Return the facets and the months of all matches."""
    counts = count_by_month(
        Gate(scope), found, time_zone=zone_name(), month_counts=cached_month_counts
    )
    leaves_out = (
        filters.sort == "newest"
        and not filters.period
        and any(
            count.last > timezone.now() and not is_plausible(visible.stream, count.last.date())
            for visible, count in counts.months
            if count.last is not None
        )
    )
    return {
        "others_url": filters.url(period=OTHER_DATES) if leaves_out else "",
        "facets": facets_of(filters, counts),
        "chart": histogram_of(filters, counts),
        "is_estimate": counts.is_estimate,
    }


def _next_url(filters: Filters, scope: Scope, found: SearchResult) -> str:
    if not found.has_more or not found.hits:
        return ""
    return f"{filters.url()}&{urlencode({'after': _cursor(filters, scope, found)})}"


def _cursor(filters: Filters, scope: Scope, found: SearchResult) -> str:
    """Return where the next page continues."""
    state = found.cursor_state(len(found.hits))
    return encode_cursor(CURSOR_KIND, scope=scope, query=filters.query, place=state)


def _row(hit: Hit) -> HitRow:
    """Return a hit with its heading and other excerpts, as safe HTML with marked matches."""
    summary = RecordSummary(hit.visible, hit.record, StreamRoles(hit.visible.stream))
    title = summary.roles.title if summary.line(summary.roles.title) else summary.roles.text
    heading = next((each for each in hit.excerpts if each.field == title), None)
    others = [_excerpt_html(each) for each in hit.excerpts if each is not heading]
    title_html = escape(summary.title) if heading is None else _excerpt_html(heading)
    return summary, title_html, [text for text in others if text != escape(summary.actor)][:2]


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


def _disclosed(found: SearchResult, rows: Sequence[HitRow]) -> list[DisclosedItem]:
    """Return the hits, with the fields of their rows and excerpts, and what suggestions disclose."""
    items = [
        DisclosedItem(*hit.key, summary.listed_fields | {each.field for each in hit.excerpts})
        for hit, (summary, *_) in zip(found.hits, rows, strict=True)
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
