"""The owner's home page: what needs the owner, today, what apps read, what is here, and the demo data."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from evidence.access.gate import Gate
from evidence.access.grant_lifecycle import link_token, open_requests, request_sentence
from evidence.access.grant_text import format_day, join_words, stream_label
from evidence.access.owner_notices import ending_grants, open_alerts, refused_calls
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import MonthCount
from evidence.access.records import VisibleRecords
from evidence.ledger.disclosures import APPS, Reading, list_readings, sum_by_client
from evidence.ledger.entries import DisclosedItem
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.grants import Grant, Package
from evidence.models.owners import Owner, current_owner
from importers.runs.store import stopped_runs
from importers.sources import status as account_status
from importers.sources.account_store import list_accounts
from operations.backup import schedule
from operations.demo_data import CLIENT_NAME, remove_demo
from operations.health import jobs_warning
from operations.notifications.store import list_channels
from owner.accounts.setup import recent_link
from owner.charts import Chart, add_months, month_chart, months_between, year_ticks
from owner.form_fields import known_addresses
from owner.permissions import owner_required
from owner.records.bookings import own_transfers
from owner.records.day_page import (
    EarlierYear,
    earlier_years,
    nearest_day,
    streams_by_month,
    timed_streams,
)
from owner.records.measure_charts import day_sums
from owner.records.people_directory import link_people
from owner.records.periods import cached_month_counts, is_plausible, one_day, today
from owner.records.record_roles import Layout, StreamRoles
from owner.records.record_summaries import (
    RecordSummary,
    are_all_demo,
    listed_items,
    record_owner_read,
    stream_url,
)
from owner.second_factor import is_enrolled
from owner.site import Question, confirmation
from owner.text import format_time, last_days, pluralize, to_local_time

ENDING_SOON = timedelta(days=14)
FAILED_IMPORTS = timedelta(days=30)
RECENT = timedelta(days=7)
READING_DAYS = 2
MAX_MONTHS = 120
"""Older months are left out of the charts; the first date still tells of them."""
STALE = timedelta(days=30)
READ_OF_TODAY, SHOWN_OF_TODAY, SHOWN_YEARS = 60, 4, 3


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing to look at, with the page where the owner can act. An alert can be dismissed."""

    text: str
    link: str
    url: str
    alert_id: int | None = None
    at: datetime | None = None


def attention(owner_id: str, *, now: datetime) -> list[Attention]:
    """Return what needs the owner, tripwires first."""
    return [
        *_set_up_links(owner_id, now),
        *_alerts(owner_id),
        *_permission_requests(owner_id, now),
        *_refusals(owner_id, now),
        *_imports(owner_id, now),
        *_live_accounts(owner_id, now),
        *_background_jobs(owner_id, now),
        *_backups(owner_id, now),
        *_ending(owner_id, now),
        *_channels(owner_id),
    ]


def _set_up_links(owner_id: str, now: datetime) -> Iterator[Attention]:
    """Yield a link that was made while there was a sign-in: its holder takes the account over."""
    link = recent_link(owner_id, since=now - RECENT)
    if link is not None and link.replaces_account:
        made = format_time(link.created_at)
        yield Attention(
            f"A set-up link for your account was made on the server on {made}.",
            "Change your password if that was not you",
            reverse("password"),
        )


def _alerts(owner_id: str) -> list[Attention]:
    page = reverse("connected-apps")
    return [
        Attention(each.sentence, "Resume or disconnect it", page, each.alert_id, each.at)
        for each in open_alerts(owner_id)
    ]


def _permission_requests(owner_id: str, now: datetime) -> list[Attention]:
    return [
        Attention(
            f"{request_sentence(row)}.", "Decide", reverse("permission-request", args=[token])
        )
        for row in open_requests(owner_id, now=now)
        if (token := link_token(row)) is not None
    ]


def _background_jobs(owner_id: str, now: datetime) -> Iterator[Attention]:
    """Yield what an administrator should know of the server's jobs."""
    warning = jobs_warning(now)
    if warning and Owner.unscoped.filter(pk=owner_id, is_administrator=True).exists():
        yield Attention(warning, "Status", "/readyz")


def _refusals(owner_id: str, now: datetime) -> list[Attention]:
    """Return the apps with refused calls since they last got a grant, which may have answered them."""
    granted_since = Grant.unscoped.filter(
        package__client_id=OuterRef("client_id"), issued_at__gte=OuterRef("at")
    )
    rows = refused_calls(owner_id).filter(~Exists(granted_since), at__gte=now - RECENT).order_by()
    found = rows.values("client_id").annotate(calls=Count("pk")).order_by("-calls")
    names = dict(Client.unscoped.filter(owner_id=owner_id).values_list("pk", "display_name"))
    page = reverse("refused-calls")
    return [
        Attention(
            f"{pluralize(row['calls'], 'call')} of {names[row['client_id']]}"
            f" {'was' if row['calls'] == 1 else 'were'} refused in the last {RECENT.days} days.",
            "See why",
            f"{page}?client={row['client_id']}",
        )
        for row in found
        if row["client_id"] in names
    ]


def _imports(owner_id: str, now: datetime) -> list[Attention]:
    page = reverse("imports")
    return [
        Attention(f"The import of {run.label} stopped before its end.", "Continue it", page)
        for run in stopped_runs(owner_id, since=now - FAILED_IMPORTS)
    ]


def _live_accounts(owner_id: str, now: datetime) -> Iterator[Attention]:
    """Yield the accounts that need their owner, or were not read for a day."""
    for account in list_accounts(owner_id):
        notice = account_status.notice(account, now=now)
        if notice is not None:
            yield Attention(notice.text, notice.link, reverse("account", args=[account.pk]))


def _backups(owner_id: str, now: datetime) -> list[Attention]:
    """Return problems of backups; demo data alone needs none."""
    plan, copies = schedule.get_plan(owner_id), schedule.list_copies(owner_id)
    if not copies and not Connection.unscoped.filter(owner_id=owner_id, demo=False).exists():
        return []
    lines = schedule.notices(plan, copies, now=now)
    return [Attention(line, "Backups", reverse("backups")) for line in lines]


def _ending(owner_id: str, now: datetime) -> list[Attention]:
    return [
        Attention(
            f"Access of {grant.package.client.display_name} to {grant.source.display_name} ends on"
            f" {format_day(grant.expires_at)}.",
            "See the app",
            reverse("connected-apps"),
        )
        for grant in ending_grants(owner_id, within=ENDING_SOON, now=now)
        if grant.expires_at is not None
    ]


def _channels(owner_id: str) -> list[Attention]:
    return [
        Attention(
            f"Notifications by {row.get_transport_display().lower()} have not arrived since"
            f" {format_time(row.failing_since)}. {row.problem}",
            "Correct the channel",
            reverse("notifications"),
        )
        for row in list_channels(owner_id)
        if row.failing_since is not None
    ]


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


def overview(gate: Gate, streams: Sequence[VisibleRecords]) -> Overview:
    """Return all connections of the owner with records, fullest first. At most two queries."""
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
    """Return what each app read since yesterday, latest first. Two queries."""
    since, until = last_days(now, READING_DAYS)
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


CARD_TITLES: Mapping[Layout, str] = {
    Layout.CALENDAR: "Calendar",
    Layout.MAILBOX: "New mail",
    Layout.CONVERSATION: "Messages",
    Layout.BOOKINGS: "Money",
    Layout.MEASURES: "Measured",
}
"""What home shows of today, in this order."""


@dataclass(slots=True, kw_only=True)
class TodayCard:
    """Records and sums of one kind today; `has_more` where a stream has more than were read."""

    title: str
    records: list[RecordSummary] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    has_more: bool = False

    @property
    def shown(self) -> Sequence[RecordSummary]:
        return self.records[:SHOWN_OF_TODAY]

    @property
    def left_out(self) -> int:
        return len(self.records) - len(self.shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Today:
    day: date
    cards: Sequence[TodayCard]
    latest: date | None
    """The last day with records, where today has none."""
    earlier: Sequence[EarlierYear]

    @property
    def records(self) -> list[RecordSummary]:
        return [
            *(each for card in self.cards for each in card.shown),
            *(each for year in self.earlier for each in year.records),
        ]


def today_and_earlier(gate: Gate, streams: Sequence[VisibleRecords]) -> Today:
    """Return today's records by kind, and this day in earlier years, with their ledger entry.

    One or two queries for each stream with records in this month, by its index on time.
    """
    day, timed = today(), timed_streams(streams)
    months = {(day + timedelta(days=n)).replace(day=1) for n in (-1, 0, 1)}
    numbers_of = streams_by_month(timed)
    current = {number for month in months for number in numbers_of.get(month, ())}
    cards = {layout: TodayCard(title=title) for layout, title in CARD_TITLES.items()}
    summed: list[DisclosedItem] = []
    with transaction.atomic():
        for visible in (timed[number] for number in sorted(current)):
            roles = StreamRoles(visible.stream)
            if (card := cards.get(roles.layout)) is None:
                continue
            if roles.layout == Layout.MEASURES:
                for facts in visible.connections:
                    card.facts += day_sums(visible.for_connection(facts.connection_id), roles, day)
                summed += _summed(visible, roles.measure, roles.unit, roles.title)
                continue
            found, has_more = one_day(day).first_records(
                visible, limit=READ_OF_TODAY, descending=roles.layout != Layout.CALENDAR
            )
            card.has_more |= has_more
            is_correspondence = roles.layout in (Layout.MAILBOX, Layout.CONVERSATION)
            card.records += [each for each in found if not (is_correspondence and each.is_by_owner)]
            if roles.layout == Layout.BOOKINGS and found and not has_more:
                card.facts += _spent(visible, roles, found, day)
                summed += _summed(visible, roles.amount, roles.currency)
        for layout, card in cards.items():
            card.records.sort(key=lambda each: each.clock, reverse=layout != Layout.CALENDAR)
        filled = [each for each in cards.values() if each.records or each.facts]
        shown = Today(
            day=day,
            cards=filled,
            latest=None if filled else nearest_day(timed, day, numbers_of, later=False),
            earlier=earlier_years(
                timed, day, numbers_of, most=SHOWN_YEARS, without=Layout.BOOKINGS
            ),
        )
        if items := [*listed_items(shown.records), *summed]:
            record_owner_read(gate.scope, items, route="home")
    link_people(shown.records)
    return shown


def _summed(visible: VisibleRecords, *fields: str | None) -> Iterator[DisclosedItem]:
    """Yield the fields of a stream that the page sums up, for the ledger."""
    for facts in visible.connections:
        names = frozenset(filter(None, fields))
        yield DisclosedItem(facts.connection_id, visible.stream.name, None, names)


def _spent(
    visible: VisibleRecords, roles: StreamRoles, found: Sequence[RecordSummary], day: date
) -> list[tuple[str, str]]:
    """Return what was spent by currency, without transfers between own accounts. One query."""
    moved = {each.from_key for each in own_transfers(one_day(day).of(visible), roles)}
    spent: Counter[str] = Counter()
    for each in found:
        if each.amount is not None and each.amount < 0 and each.record.record_key not in moved:
            spent[each.currency] -= each.amount  # type: ignore[assignment] # of floats
    return [("Spent", f"{amount:,.2f} {currency}") for currency, amount in spent.items()]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of setting up."""

    text: str
    url: str
    is_done: bool


def first_steps(user: User, shown: Overview) -> list[Step]:
    """Return the steps of setting up, as long as one of them is not done."""
    owner_id = current_owner()
    steps = [
        Step("Import an export", reverse("imports"), bool(shown.own)),
        Step("Tell which addresses are yours", reverse("connections"), bool(known_addresses())),
        Step("Connect a live account", reverse("accounts"), bool(list_accounts(owner_id))),
        Step("Connect an app", reverse("connect"), has_app(owner_id)),
        Step("Make a backup", reverse("backups"), bool(schedule.list_copies(owner_id))),
        Step("Add a second factor", reverse("second-factor-settings"), is_enrolled(user)),
    ]
    return [] if all(step.is_done for step in steps) else steps


@owner_required
def home(request: HttpRequest) -> HttpResponse:
    """Show what needs attention, today, what apps read since yesterday, and what is here."""
    now = timezone.now()
    gate = Gate(owner_scope(current_owner()))
    streams = gate.streams()
    shown = overview(gate, streams)
    of_today = today_and_earlier(gate, streams)
    steps = first_steps(cast("User", request.user), shown)
    context = {
        "here": "home",
        "overview": shown,
        "today": of_today,
        "is_all_demo": are_all_demo(of_today.records),
        "steps": steps,
        "steps_done": sum(step.is_done for step in steps),
        "readings": recent_readings(gate, now=now),
        "attention": attention(current_owner(), now=now),
        "backups": schedule.latest(
            schedule.get_plan(current_owner()), schedule.list_copies(current_owner())
        ),
    }
    return render(request, "owner/home.html", context)


def has_app(owner_id: str) -> bool:
    """Return whether the owner ever allowed an app, other than that of the demo."""
    packages = Package.unscoped.filter(owner_id=owner_id)
    return packages.exclude(client__display_name=CLIENT_NAME).exists()


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def remove_demo_data(request: HttpRequest) -> HttpResponse:
    """Ask for confirmation on GET, and erase the demo connections on POST."""
    demo = Connection.unscoped.filter(demo=True).order_by("display_name")
    if request.method == "POST":
        remove_demo(now=timezone.now())
        messages.success(request, "The demo data is removed.")
        return redirect("home")
    if not demo:
        return redirect("home")
    question = Question(
        title="Remove the demo data?",
        explanation="All records of these connections are erased, and access to them ends."
        " Your own records stay.",
        items={each.pk: each.display_name for each in demo},
        button="Remove",
        back=reverse("home"),
    )
    return confirmation(request, question, here="home")
