"""The activity page: what each app read by day, in words and charts, and each reading by its records.

Charts count days in UTC, as limits do; words and pages count days in the owner's time zone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django import forms
from django.contrib.humanize.templatetags.humanize import apnumber
from django.core.paginator import Page, Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from evidence.access.gate import Gate
from evidence.access.grant_states import CURRENT_STATES, state_of, with_grant_state
from evidence.access.grant_text import humanize, join_words
from evidence.access.owner_scope import owner_scope
from evidence.access.quotas import quotas_by_grant
from evidence.access.record_counts import stored_counts
from evidence.access.scope import QuotaUsage
from evidence.errors import ApiException
from evidence.ledger.disclosures import (
    DailyUse,
    DisclosureEntry,
    Reading,
    ReadingFilter,
    daily_use,
    digest_of_record,
    disclosures_between,
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
from owner.charts import HEIGHT, Bar
from owner.form_fields import set_choices
from owner.grants.grant_forms import UNITS, describe_amount, format_amount
from owner.permissions import owner_required
from owner.records.record_summaries import RecordSummary, listed_items, record_owner_read, summarize
from owner.site import grant_url
from owner.text import DAY, escape_invisible, midnight, start_of_day

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


def activity_url(**query: str) -> str:
    """Return the address of the activity page with filters; empty ones are left out."""
    chosen = {name: value for name, value in query.items() if value}
    return f"{reverse('activity')}?{urlencode(chosen)}"


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


class Amount(NamedTuple):
    """A number of records of one stream: ``41 messages`` from ``Personal mail``."""

    records: str
    connection: str


def count_of(records: int, stream: str) -> str:
    """Return ``41 messages``, ``1 message`` or ``1 record of people``."""
    name = escape_invisible(humanize(stream)).lower()
    if records != 1:
        return f"{records:,} {name}"
    if name.endswith("ies"):
        return f"1 {name.removesuffix('ies')}y"
    is_plural = name.endswith("s") and not name.endswith("ss")
    return f"1 {name.removesuffix('s')}" if is_plural else f"1 record of {name}"


def amounts(reading: Reading, names: Names) -> list[Amount]:
    """Return the different records by stream, most first; the last entry sums up the others."""
    places = [(place, count) for place, count in reading.places.most_common() if count]
    shown = places if len(places) <= MAX_PLACES else places[: MAX_PLACES - 1]
    found = [
        Amount(count_of(count, stream), names.connection(connection_id))
        for (connection_id, stream), count in shown
    ]
    if rest := reading.unplaced + sum(count for _, count in places[len(shown) :]):
        found.append(Amount(count_of(rest, "other records" if found else "records"), ""))
    return found


def looked_at(reading: Reading, names: Names) -> list[str]:
    """Return the connections of which the reading shows counts or lists without records."""
    found = {connection_id for connection_id, _ in reading.places}
    return [names.connection(connection_id) for connection_id in sorted(found)]


def period(reading: Reading) -> str:
    """Return ``between 9:12 and 9:20`` or ``at 9:12``."""
    first, last = _clock(reading.first), _clock(reading.last)
    return f"at {first}" if first == last else f"between {first} and {last}"


def _clock(moment: datetime) -> str:
    local = timezone.localtime(moment)
    return f"{local.hour}:{local:%M}"


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


A_PAGE = 50
MAX_ANSWERS = 100
MAX_ROWS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLine:
    """One answer: its streams with the fields that it showed, without values.

    ``counted`` is the number of records behind a number that it showed, such as a sum.
    """

    at: datetime
    route: str
    records: int
    counted: int | None
    size: int
    request_id: str
    streams: Sequence[tuple[str, str, str]]
    """Connection, stream and fields."""


@require_safe
@owner_required
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
        "back_url": activity_url(client=client_id or "you"),
        "since": since,
        "until": until,
        "found": found,
        "records": records,
        "gone": gone,
        "answers": [_line(entry, names) for entry in entries[:MAX_ANSWERS]],
        "more_answers": max(0, len(entries) - MAX_ANSWERS),
        "pages": urlencode({name: request.GET[name] for name in ("client", "since", "until")}),
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


def _line(entry: DisclosureEntry, names: Names) -> AnswerLine:
    return AnswerLine(
        at=entry.at,
        route=entry.route,
        records=entry.record_count,
        counted=entry.counted,
        size=entry.size_bytes,
        request_id=escape_invisible(entry.request_id),
        streams=[
            (
                names.connection(each.connection_id),
                each.stream,
                escape_invisible(", ".join(each.fields)),
            )
            for each in entry.covered
        ],
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLine:
    """One reading in words."""

    amounts: Sequence[Amount]
    looked_at: Sequence[str]
    period: str
    calls: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppActivity:
    """What one app read in the period, by day, latest first. The owner has no client id."""

    client_id: str
    name: str
    records: int
    answers: int
    days: Sequence[tuple[date, Sequence[ReadingLine]]]
    left_out: int
    url: str


@require_safe
@owner_required
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


def app_activities(readings: Sequence[Reading], names: Names) -> list[AppActivity]:
    """Return the readings by app, most recent first, then by day."""
    totals = sum_by_client(readings)
    activities = []
    for client_id, total in totals.items():
        own = [reading for reading in readings if reading.client_id == client_id]
        days = groupby(own[:MAX_LINES], key=lambda reading: timezone.localdate(reading.last))
        activities.append(
            AppActivity(
                client_id=client_id,
                name=names.client(client_id),
                records=total.records,
                answers=total.answers,
                days=[(day, [_reading_line(each, names) for each in rows]) for day, rows in days],
                left_out=max(0, len(own) - MAX_LINES),
                url=activity_url(client=client_id or OWNER_FILTER),
            )
        )
    return activities


def _reading_line(reading: Reading, names: Names) -> ReadingLine:
    query = {
        "client": reading.client_id,
        "since": reading.first.isoformat(),
        "until": reading.last.isoformat(),
    }
    return ReadingLine(
        amounts=amounts(reading, names),
        looked_at=looked_at(reading, names),
        period=period(reading),
        calls=calls(reading),
        url=f"{reverse('activity-reading')}?{urlencode(query)}",
    )


def _links(form: ActivityForm, where: ReadingFilter, since: datetime) -> Mapping[str, str]:
    filters = {name: value for name, value in form.query.items() if name not in ("day", "until")}
    earlier = find_time(where, until=since)
    export = urlencode(form.query)
    return {
        "earlier_url": activity_url(**filters, until=since.date().isoformat()) if earlier else "",
        "latest_url": activity_url(**filters) if len(filters) < len(form.query) else "",
        "csv_url": f"{reverse('activity-export', args=['csv'])}?{export}",
        "json_url": f"{reverse('activity-export', args=['json'])}?{export}",
    }
