"""The activity page: what each app read by day, in words and charts, each reading, and their export.

Charts count days in UTC, as limits do; words and pages count days in the owner's time zone. The export has
each answer with the records that it showed.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby, islice
from typing import Any
from urllib.parse import urlencode

import orjson
from django import forms
from django.contrib.humanize.templatetags.humanize import apnumber
from django.core.paginator import Page, Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.grant_states import CURRENT_STATES, state_of, with_grant_state
from evidence.access.grant_text import format_day, join_words
from evidence.access.owner_scope import owner_scope
from evidence.access.quotas import quotas_by_grant
from evidence.access.record_counts import stored_counts
from evidence.access.scope import QuotaUsage
from evidence.errors import ApiException
from evidence.ledger.disclosures import (
    DailyUse,
    DisclosureEntry,
    Disclosures,
    NamedRecord,
    Reading,
    ReadingFilter,
    all_disclosures,
    daily_use,
    digest_of_record,
    disclosures_between,
    disclosures_of_record,
    find_time,
    list_readings,
    named_records,
    read_disclosures,
    shown_records,
    sum_by_client,
)
from evidence.ledger.verification import ledger_proof
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.grants import Grant
from evidence.models.owners import current_owner
from owner.charts import HEIGHT, SLOT, bar
from owner.form_fields import set_choices
from owner.grants.grant_forms import UNITS, describe_amount, format_amount
from owner.permissions import owner_reads
from owner.records.record_summaries import RecordSummary, listed_items, record_owner_read, summarize
from owner.site import grant_url, link
from owner.text import DAY, count_of, escape_invisible, midnight, start_of_day

YOU = "You"
MAX_PLACES = 6
CALL_NOUNS: Mapping[str, tuple[str, str]] = {
    "search": ("search", "searches"),
    "semantic search": ("search", "searches"),
    "hybrid search": ("search", "searches"),
    "records": ("list", "lists"),
    "record": ("single record", "single records"),
    "field window": ("part of a text", "parts of a text"),
    "aggregate": ("calculation", "calculations"),
    "blob": ("file", "files"),
    "records changed": ("notification", "notifications"),
}
PAGES = ("page", "pages")
OTHER_CALLS = ("overview", "overviews")
"""Schema, streams and connections: the routes that show no record."""


class Names:
    """The owner's names of apps and connections. Two queries."""

    def __init__(self, owner_id: str) -> None:
        clients = Client.unscoped.filter(owner_id=owner_id).order_by("display_name", "pk")
        self.clients = dict(clients.values_list("pk", "display_name"))
        rows = Connection.unscoped.filter(owner_id=owner_id).order_by("display_name", "pk")
        self.connections = {row.pk: row.label for row in rows}

    def client(self, client_id: str) -> str:
        """Return the name of an app; the owner has no id."""
        return self.clients.get(client_id, client_id) if client_id else YOU

    def connection(self, connection_id: str) -> str:
        return self.connections.get(connection_id, "a removed connection")


def amounts(reading: Reading, names: Names) -> list[tuple[str, str]]:
    """Return ``41 messages`` and ``Personal mail``: the different records by stream, most first.

    The last entry sums up the others, and has no connection.
    """
    places = [(place, count) for place, count in reading.places.most_common() if count]
    shown = places if len(places) <= MAX_PLACES else places[: MAX_PLACES - 1]
    found = [
        (count_of(count, stream), names.connection(connection_id))
        for (connection_id, stream), count in shown
    ]
    if rest := reading.unplaced + sum(count for _, count in places[len(shown) :]):
        found.append((count_of(rest, "other records" if found else "records"), ""))
    return found


def period(reading: Reading) -> str:
    """Return ``between 09:12 and 09:20`` or ``at 09:12``."""
    first, last = _clock(reading.first), _clock(reading.last)
    return f"at {first}" if first == last else f"between {first} and {last}"


def _clock(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%H:%M}"


def calls(reading: Reading) -> str:
    """Return ``six searches and one list``."""
    totals: dict[tuple[str, str], int] = {}
    for route, count in reading.calls.items():
        surface, _, kind = route.partition(" ")
        nouns = PAGES if surface == "admin" else CALL_NOUNS.get(kind, OTHER_CALLS)
        totals[nouns] = totals.get(nouns, 0) + count
    ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    return join_words(
        [f"{apnumber(n) if n < 10 else f'{n:,}'} {nouns[n != 1]}" for nouns, n in ordered]
    )


DAYS = 28


def usage_charts(client_id: str, *, now: datetime) -> list[dict[str, Any]]:
    """Return a chart for each daily limit; without any limit, one of all records. Three queries."""
    first = now.astimezone(UTC).date() - timedelta(days=DAYS - 1)
    uses = daily_use(client_id, since=datetime.combine(first, time.min, UTC))
    rows = with_grant_state(now).filter(
        package__owner_id=current_owner(), package__client_id=client_id
    )
    grants = list(rows.order_by("-issued_at", "grant_id"))
    current = [grant for grant in grants if state_of(grant) in CURRENT_STATES]
    quotas = quotas_by_grant([grant.pk for grant in grants], now=now)
    charts = []
    for grant in current:
        # A grant has the use of those that it replaced, and of those that extend it.
        place = (grant.package_id, grant.source_id)
        ids = {each.pk for each in grants if (each.package_id, each.source_id) == place}
        own = [use for use in uses if use.grant_id in ids]
        charts += [
            _chart(client_id, own, first, grant=grant, quota=quota)
            for quota in quotas.get(grant.pk, ())
            if quota.period == "day" and grant.extends_id is None
        ]
    newest = next(iter(current), None)
    return charts or [_chart(client_id, uses, first, grant=newest, quota=None)]


def _chart(
    client_id: str,
    uses: Iterable[DailyUse],
    first: date,
    *,
    grant: Grant | None,
    quota: QuotaUsage | None,
) -> dict[str, Any]:
    """Return bars of one measure, one a day, and the height of the limit; None without one."""
    measure = "records" if quota is None else quota.measure
    counts: Counter[date] = Counter()
    for use in uses:
        counts[use.day] += getattr(use, measure)
    top = _scale_top(measure, max([*counts.values(), 0 if quota is None else quota.most]))
    title = f"{UNITS[measure][0]} per day"
    if grant is not None and quota:
        title += f" from {grant.source.display_name}"
    unit = UNITS[measure][0].lower()
    limit = "" if quota is None else f"{format_amount(measure, quota.most)} {unit}"
    days = [first + timedelta(days=number) for number in range(DAYS)]
    bars = []
    for number, day in enumerate(days):
        if counts[day]:
            height = max(2.0, round(HEIGHT * counts[day] / top, 1))
            label = f"{day.day} {day:%B}: {describe_amount(measure, counts[day])}"
            url = link("activity", client=client_id, day=day.isoformat())
            bars.append(bar(number, height, label, url))
    return {
        "title": title,
        "text": f"{title} in the last {DAYS} days, {'limit ' + limit if limit else 'no limit'}",
        "bars": bars,
        "limit": limit,
        "limit_y": None if quota is None else round(HEIGHT * (1 - quota.most / top), 1),
        "limits_url": "" if grant is None else f"{grant_url(grant.pk)}#limits",
        "scale": [f"{format_amount(measure, top)} {unit}", format_amount(measure, top // 2), "0"],
        "ends": f"{format_day(days[0])} to {format_day(days[-1])}",
        "ticks": [
            (f"{100 * number / DAYS:.2f}%", f"{day.day} {day:%b}")
            for number, day in list(enumerate(days))[::7]
        ],
        "view_box": f"0 0 {DAYS * SLOT} {HEIGHT}",
    }


def _scale_top(measure: str, most: int) -> int:
    """Return the next even round number, such as 20, 40, 60 or 100, in units of the page."""
    unit = UNITS[measure][1]
    power = 1
    while 10 * power * unit < most:
        power *= 10
    return next(step * power * unit for step in (2, 4, 6, 8, 10) if step * power * unit >= most)


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


def share_table(owner_id: str, names: Names, *, now: datetime) -> dict[str, Any] | None:
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
    return {
        "apps": [(names.client(pk), link("activity", client=pk)) for pk in clients],
        "rows": [
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
        "counted_at": min(shown[client].counted_at for client in clients),
    }


A_PAGE = 50
MAX_ANSWERS = 100
MAX_ROWS = 20_000


@owner_reads
def reading_page(request: HttpRequest) -> HttpResponse:
    """Show what one client read between two times; an empty client is the owner."""
    names, client_id = Names(current_owner()), request.GET.get("client", "")
    since, until = _time(request, "since"), _time(request, "until")
    rows = disclosures_between(current_owner(), client_id=client_id, since=since, until=until)
    entries = list(read_disclosures(rows[:MAX_ROWS]))
    digests = list(dict.fromkeys(each for entry in entries for each in entry.record_digests))
    found: Page[bytes] = Paginator(digests, A_PAGE).get_page(request.GET.get("page"))
    gate = Gate(owner_scope(current_owner()))
    with transaction.atomic():
        records, gone = _records(gate, list(found.object_list))
        record_owner_read(gate.scope, listed_items(records), route="activity")
    context = {
        "here": "activity",
        "name": names.client(client_id),
        "back_url": link("activity", client=client_id or "you"),
        "since": since,
        "until": until,
        "found": found,
        "records": records,
        "gone": gone,
        "answers": [_line(entry, names) for entry in entries[:MAX_ANSWERS]],
        "more_answers": max(0, len(entries) - MAX_ANSWERS),
        "pages": urlencode(
            {"client": client_id, "since": since.isoformat(), "until": until.isoformat()}
        ),
    }
    return render(request, "owner/activity/reading.html", context)


def _time(request: HttpRequest, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(request.GET.get(name, "").replace(" ", "+"))
    except ValueError:
        raise Http404 from None
    if timezone.is_naive(moment):
        raise Http404
    return moment


def _records(gate: Gate, digests: Sequence[bytes]) -> tuple[list[RecordSummary], int]:
    """Return the records of digests in their order, and the number of those that are gone.

    One query, and one per connection and stream.
    """
    targets = named_records(digests)
    keys: Mapping[tuple[str, str], list[str]] = defaultdict(list)
    for each in targets.values():
        keys[each.connection_id, each.stream].append(each.record_key)
    found = {}
    for (connection_id, stream), record_keys in keys.items():
        try:
            visible = gate.stream(stream, connection_id=connection_id)
        except ApiException:
            continue  # the connection is revoked, or its source declares no such stream any more
        for summary in summarize(visible, visible.get_many(record_keys)):
            found[connection_id, stream, summary.record.record_key] = summary
    ordered = [
        found.get((target.connection_id, target.stream, target.record_key))
        for digest in digests
        if (target := targets.get(digest)) is not None
    ]
    records = [summary for summary in ordered if summary is not None]
    return records, len(digests) - len(records)


def _line(entry: DisclosureEntry, names: Names) -> dict[str, Any]:
    """Return one answer: its streams with the fields that it showed, without values."""
    surface, _, kind = entry.route.partition(" ")
    return {
        "at": entry.at,
        "route": f"{kind} page" if surface == "admin" else entry.route,
        "records": entry.record_count,
        # The number of records behind a number that it showed, such as a sum.
        "counted": entry.counted,
        "size": entry.size_bytes,
        "request_id": escape_invisible(entry.request_id),
        "streams": [
            (names.connection(each.connection_id), each.stream,
             escape_invisible(", ".join(each.fields)))
            for each in entry.covered
        ],
    }  # fmt: skip


OWNER_FILTER = "you"
WEEK = 7 * DAY
MAX_PAGE_ROWS = 10_000
"""A page shows fewer days than a week if the ledger has more rows of them than this."""
MAX_LINES = 200
"""Readings of one app on one page."""


class ActivityForm(forms.Form):
    """All filters are optional; invalid ones are ignored."""

    client = forms.ChoiceField(label="App", required=False)
    connection = forms.ChoiceField(label="Connection", required=False)
    day = forms.DateField(
        label="Day", required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    until = forms.DateField(required=False, widget=forms.HiddenInput)
    stream = forms.CharField(required=False, widget=forms.HiddenInput)
    key = forms.CharField(required=False, strip=False, widget=forms.HiddenInput)

    def __init__(self, data: Any, *, names: Names) -> None:
        super().__init__(data)
        set_choices(
            self, "client", [("", "All apps"), *names.clients.items(), (OWNER_FILTER, "You")]
        )
        set_choices(self, "connection", [("", "All connections"), *names.connections.items()])
        self.is_valid()
        self.cleaned_data = {name: self.cleaned_data.get(name) or "" for name in self.fields}

    @property
    def query(self) -> dict[str, str]:
        """The chosen filters as parameters of a URL."""
        return {name: str(value) for name, value in self.cleaned_data.items() if value}

    @property
    def where(self) -> ReadingFilter:
        """Without a chosen app all apps; who has seen one record includes the owner."""
        chosen = self.cleaned_data
        client, connection, key = chosen["client"], chosen["connection"], chosen["key"]
        digest = digest_of_record(connection, chosen["stream"], key) if key else None
        return ReadingFilter(
            client_id=("" if client == OWNER_FILTER else client) if client else None,
            only_apps=not client and not key,
            connection_id=None if key else connection or None,
            record_digest=(digest or b"") if key else None,
        )

    def days(self, where: ReadingFilter, *, now: datetime) -> tuple[datetime, datetime]:
        """Return the period of the page: the chosen day, or a week that ends with a reading."""
        if day := self.cleaned_data["day"]:
            return midnight(day), midnight(day + DAY)
        until: date | None = self.cleaned_data["until"] or None
        end = midnight(until) if until else start_of_day(now) + DAY
        latest = find_time(where, until=end)
        end = end if latest is None else start_of_day(latest) + DAY
        busy = find_time(where, until=end, since=end - WEEK, newer=MAX_PAGE_ROWS)
        start = end - WEEK if busy is None else min(start_of_day(busy), end - 2 * DAY) + DAY
        return start, end


@owner_reads
def activity_page(request: HttpRequest) -> HttpResponse:
    """Show the readings that match the filters, a week on each page."""
    now = timezone.now()
    names = Names(current_owner())
    form = ActivityForm(request.GET, names=names)
    where = form.where
    since, until = form.days(where, now=now)
    readings = list_readings(since=since, until=until, where=where, counts_records=True)
    client = where.client_id or ""
    is_overview = not form.query
    context = {
        "here": "activity",
        "form": form,
        "is_overview": is_overview,
        "is_filtered": bool(form.query.keys() - {"until"}),
        "key": escape_invisible(form.cleaned_data["key"]),
        "app": names.client(client) if client else "",
        "client_id": client,
        "apps": app_activities(readings, names),
        "since": since.date(),
        "last": until.date() - DAY,
        "charts": usage_charts(client, now=now) if client else (),
        "shares": share_table(current_owner(), names, now=now) if is_overview else None,
        "proof": ledger_proof(current_owner()),
        **_links(form, where, since),
    }
    return render(request, "owner/activity/activity.html", context)


def app_activities(readings: Sequence[Reading], names: Names) -> list[dict[str, Any]]:
    """Return the readings by app, most recent first, then by day. The owner has no client id."""
    activities = []
    for client_id, total in sum_by_client(readings).items():
        own = [reading for reading in readings if reading.client_id == client_id]
        days = groupby(own[:MAX_LINES], key=lambda reading: timezone.localdate(reading.last))
        activities.append({
            "name": names.client(client_id),
            "records": total.records,
            "answers": total.answers,
            "days": [(day, [_reading_line(each, names) for each in rows]) for day, rows in days],
            "left_out": max(0, len(own) - MAX_LINES),
            "url": link("activity", client=client_id or OWNER_FILTER),
        })  # fmt: skip
    return activities


def _reading_line(reading: Reading, names: Names) -> dict[str, Any]:
    """Return one reading in words."""
    since, until = reading.first.isoformat(), reading.last.isoformat()
    places = sorted({connection_id for connection_id, _ in reading.places})
    return {
        "amounts": amounts(reading, names),
        # The connections of which it shows counts or lists without records.
        "looked_at": [names.connection(each) for each in places],
        "period": period(reading),
        "calls": calls(reading),
        "url": link("activity-reading", client=reading.client_id, since=since, until=until),
    }


def _links(form: ActivityForm, where: ReadingFilter, since: datetime) -> Mapping[str, str]:
    filters = {name: value for name, value in form.query.items() if name not in ("day", "until")}
    earlier = find_time(where, until=since)
    return {
        "earlier_url": link("activity", **filters, until=since.date().isoformat())
        if earlier
        else "",
        "latest_url": link("activity", **filters) if len(filters) < len(form.query) else "",
        "csv_url": link("activity-export", "csv", **form.query),
        "json_url": link("activity-export", "json", **form.query),
    }


BATCH_SIZE = 500
ERASED = "(erased)"
COLUMNS = ("at", "client", "grant_id", "route", "request_id", "connection_id", "stream",
           "record_key", "fields")  # fmt: skip
FORMULA_STARTS = "=+-@\t\r\n\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}"
"""A cell that begins so runs as a formula in some spreadsheets, also after spaces."""

Targets = Mapping[bytes, NamedRecord]


@owner_reads
def export(request: HttpRequest, name: str) -> StreamingHttpResponse:
    """Return the answers that match the filters of the page, latest first, of all times or one day."""
    formats: Mapping[str, tuple[str, Callable[..., Iterator[Any]]]] = {
        "csv": ("text/csv; charset=utf-8", _csv),
        "json": ("application/json", _json),
    }
    if name not in formats:
        raise Http404
    media_type, write = formats[name]
    names = Names(current_owner())
    rows = _rows(ActivityForm(request.GET, names=names))
    response = StreamingHttpResponse(write(rows, names), content_type=media_type)
    response["Content-Disposition"] = f'attachment; filename="activity.{name}"'
    return response


def _rows(form: ActivityForm) -> Disclosures:
    """Return the disclosures that the page counts, without its limit to a week."""
    chosen, where = form.cleaned_data, form.where
    rows = (
        disclosures_of_record(chosen["connection"], chosen["stream"], chosen["key"])
        if chosen["key"]
        else all_disclosures(current_owner())
    )
    if where.only_apps:
        rows = rows.exclude(client_id="")
    if chosen["client"]:
        rows = rows.filter(client_id="" if chosen["client"] == OWNER_FILTER else chosen["client"])
    if where.connection_id is not None:
        rows = rows.filter(covered__contains=f'["{where.connection_id}",')
    if day := chosen["day"]:
        rows = rows.filter(at__gte=midnight(day), at__lt=midnight(day + DAY))
    return rows


def _entries(rows: Disclosures) -> Iterator[tuple[DisclosureEntry, Targets]]:
    """Yield each answer with its records that are not erased. One query per BATCH_SIZE answers."""
    entries = read_disclosures(rows)
    while batch := list(islice(entries, BATCH_SIZE)):
        targets = named_records([each for entry in batch for each in entry.record_digests])
        yield from ((entry, targets) for entry in batch)


class _Echo:
    """A file that returns what is written to it."""

    def write(self, text: str) -> str:
        return text


def _csv(rows: Disclosures, names: Names) -> Iterator[str]:
    write = csv.writer(_Echo()).writerow
    yield str(write(COLUMNS))
    for entry, targets in _entries(rows):
        for cells in _cells(entry, targets, names):
            yield str(write([_harmless(cell) for cell in cells]))


def _cells(entry: DisclosureEntry, targets: Targets, names: Names) -> Iterator[Sequence[str]]:
    """Yield one line per record; of an answer without records, one line per stream."""
    fields = {(each.connection_id, each.stream): " ".join(each.fields) for each in entry.covered}
    head = [_utc(entry.at), names.client(entry.client_id), entry.grant_id or "", entry.route,
            entry.request_id]  # fmt: skip
    for digest in entry.record_digests:
        if (record := targets.get(digest)) is None:
            yield [*head, "", "", ERASED, ""]
            continue
        place = (record.connection_id, record.stream)
        yield [*head, *place, record.record_key, fields.get(place, "")]
    if not entry.record_digests:
        for place, shown in fields.items() or [(("", ""), "")]:
            yield [*head, *place, "", shown]


def _harmless(cell: str) -> str:
    """Return a cell that no spreadsheet runs as a formula."""
    return f"'{cell}" if cell.lstrip(" ")[:1] in (*FORMULA_STARTS,) else cell


def _json(rows: Disclosures, names: Names) -> Iterator[bytes]:
    yield b"["
    for number, (entry, targets) in enumerate(_entries(rows)):
        yield (b",\n" if number else b"\n") + orjson.dumps(_entry_body(entry, targets, names))
    yield b"\n]\n"


def _entry_body(entry: DisclosureEntry, targets: Targets, names: Names) -> dict[str, Any]:
    records = [targets[each] for each in entry.record_digests if each in targets]
    return {
        "at": _utc(entry.at),
        "client": names.client(entry.client_id),
        "client_id": entry.client_id or None,
        "grant_id": entry.grant_id,
        "route": entry.route,
        "request_id": entry.request_id,
        "records_read": entry.record_count,
        "size_bytes": entry.size_bytes,
        "streams": [
            {
                "connection_id": each.connection_id,
                "stream": each.stream,
                "fields": each.fields,
                "records_read": each.records,
            }
            for each in entry.covered
        ],
        "records": [
            {
                "connection_id": each.connection_id,
                "stream": each.stream,
                "record_key": each.record_key,
            }
            for each in records
        ],
        "erased_records": entry.record_count - len(records),
    }


def _utc(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
