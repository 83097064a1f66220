"""The owner's home page: what needs the owner, today, what apps read, what is here, and the demo data."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.grant_lifecycle import link_token, open_requests, request_sentence
from evidence.access.grant_text import format_day, join_words, stream_label
from evidence.access.owner_notices import ending_grants, open_alerts, refused_calls
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import MonthCount
from evidence.access.records import VisibleRecords
from evidence.access.scope import ConnectionFacts
from evidence.ledger.disclosures import APPS, Reading, list_readings, sum_by_client
from evidence.ledger.entries import DisclosedItem
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.grants import Grant, Package
from evidence.models.owners import Owner, current_owner
from importers.models import SourceAccount
from importers.runs.store import stopped_runs
from importers.sources import status as account_status
from importers.sources.account_store import list_accounts
from operations.backup import schedule
from operations.backup.models import BackupCopy, BackupPlan
from operations.demo_data import CLIENT_NAME, remove_demo
from operations.health import jobs_warning
from operations.notifications.store import list_channels
from owner.accounts.setup import recent_link
from owner.charts import add_months, month_chart, months_between, months_text, year_ticks
from owner.form_fields import known_addresses
from owner.permissions import owner_required
from owner.records.bookings import own_transfers
from owner.records.day_page import (
    earlier_years,
    nearest_day,
    streams_by_month,
)
from owner.records.measure_charts import day_sums
from owner.records.people_directory import link_people
from owner.records.periods import (
    cached_month_counts,
    is_plausible,
    one_day,
    plausible_period,
    today,
)
from owner.records.record_roles import Layout, StreamRoles
from owner.records.record_summaries import (
    RecordSummary,
    are_all_demo,
    listed_items,
    record_owner_read,
    stream_url,
    summed_items,
)
from owner.second_factor import is_enrolled
from owner.site import Question, confirmation
from owner.text import format_time, last_days, pluralize, to_local_time

ENDING_SOON = timedelta(days=14)
FAILED_IMPORTS = timedelta(days=30)
RECENT = timedelta(days=7)
READING_DAYS = 2
MAX_MONTHS, FEW = 120, 200
"""Older months, and the oldest ones with fewer than one record in `FEW`, are left out of the charts;
the first date still tells of them."""
STALE = timedelta(days=30)
READ_OF_TODAY, SHOWN_OF_TODAY, SHOWN_YEARS = 60, 4, 3


class Attention(NamedTuple):
    """One thing to look at, with the page where the owner can act. An alert can be dismissed."""

    text: str
    link: str
    url: str
    alert_id: int | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Accounts and backups of the owner, which several parts of the page need."""

    accounts: Sequence[SourceAccount]
    plan: BackupPlan
    copies: Sequence[BackupCopy]


def attention(owner_id: str, upkeep: Upkeep, *, now: datetime) -> Iterator[Attention]:
    """Yield what needs the owner, tripwires first."""
    link = recent_link(owner_id, since=now - RECENT)
    # This link sets a new password for an account that has one, so its holder can sign in.
    if link is not None and link.replaces_account:
        made = format_time(link.created_at)
        yield Attention(
            f"A set-up link for your account was made on the server on {made}.",
            "Change your password if that was not you",
            reverse("password"),
        )
    apps = reverse("connected-apps")
    for each in open_alerts(owner_id):
        yield Attention(each.sentence, "Resume or disconnect it", apps, each.alert_id, each.at)
    for row in open_requests(owner_id, now=now):
        if (token := link_token(row)) is not None:
            address = reverse("permission-request", args=[token])
            yield Attention(f"{request_sentence(row)}.", "Decide", address)
    yield from _refusals(owner_id, now)
    yield from _server_attention(owner_id, upkeep, now)
    for grant in ending_grants(owner_id, within=ENDING_SOON, now=now):
        if grant.expires_at is not None:
            whose = f"{grant.package.client.display_name} to {grant.source.display_name}"
            text = f"Access of {whose} ends on {format_day(grant.expires_at)}."
            yield Attention(text, "See the app", apps)
    for channel in list_channels(owner_id):
        if channel.failing_since is not None:
            yield Attention(
                f"Notifications by {channel.get_transport_display().lower()} have not arrived since"
                f" {format_time(channel.failing_since)}. {channel.problem}",
                "Correct the channel",
                reverse("notifications"),
            )


def _refusals(owner_id: str, now: datetime) -> Iterator[Attention]:
    """Yield the connected apps with refused calls since their last grant, which may have answered."""
    granted_since = Grant.unscoped.filter(
        package__client_id=OuterRef("client_id"), issued_at__gte=OuterRef("at")
    )
    connected = Package.unscoped.filter(client_id=OuterRef("client_id"), revoked_at=None)
    rows = refused_calls(owner_id).filter(Exists(connected), ~Exists(granted_since))
    found = (
        rows.filter(at__gte=now - RECENT)
        .order_by()
        .values("client_id")
        .annotate(calls=Count("pk"))
        .order_by("-calls")
    )
    names = dict(Client.unscoped.filter(owner_id=owner_id).values_list("pk", "display_name"))
    for row in found:
        if (client_id := row["client_id"]) in names:
            were = (
                f"{'was' if row['calls'] == 1 else 'were'} refused in the last {RECENT.days} days"
            )
            text = f"{pluralize(row['calls'], 'call')} of {names[client_id]} {were}."
            yield Attention(text, "See why", reverse("refused-calls", query={"client": client_id}))


def _server_attention(owner_id: str, upkeep: Upkeep, now: datetime) -> Iterator[Attention]:
    """Yield imports, accounts, jobs and backups that failed. Demo data alone needs no backup."""
    for run in stopped_runs(owner_id, since=now - FAILED_IMPORTS):
        text = f"The import of {run.label} stopped before its end."
        yield Attention(text, "Continue it", reverse("imports"))
    for account in upkeep.accounts:
        notice = account_status.notice(account, now=now)
        if notice is not None:
            yield Attention(notice.text, notice.link, reverse("account", args=[account.pk]))
    warning = jobs_warning(now)
    if warning and Owner.unscoped.filter(pk=owner_id, is_administrator=True).exists():
        yield Attention(warning, "Status", "/readyz")
    if upkeep.copies or Connection.unscoped.filter(owner_id=owner_id, demo=False).exists():
        for line in schedule.notices(upkeep.plan, upkeep.copies, now=now):
            yield Attention(line, "Backups", reverse("backups"))


def overview(
    gate: Gate, streams: Sequence[VisibleRecords], counts: Sequence[MonthCount]
) -> dict[str, Any]:
    """Return all connections of the owner with records, fullest first."""
    periods = [plausible_period(each.stream) for each in streams]
    by_connection: dict[str, list[MonthCount]] = defaultdict(list)
    plausible: dict[str, list[tuple[date, MonthCount]]] = defaultdict(list)
    for count in counts:
        by_connection[count.connection_id].append(count)
        period = periods[count.number]
        # A date outside is a fault of its source.
        if count.month and period.first <= count.month < period.until:
            plausible[count.connection_id].append((count.month, count))
    per_month: Counter[date] = Counter()
    for month, count in chain.from_iterable(plausible.values()):
        per_month[month] += count.records
    months = _months(per_month)
    cards = [
        _card(facts, by_connection[key], plausible[key], streams, months)
        for key, facts in gate.scope.connections.items()
    ]
    cards.sort(key=lambda card: (-card["records"], card["name"]))
    own, demo = ([each for each in cards if each["is_demo"] is flag] for flag in (False, True))
    return {
        "own": own,
        "demo": demo,
        "records": sum(card["records"] for card in own),
        "demo_records": sum(card["records"] for card in demo),
        "ticks": year_ticks(months),
        "ends": months_text(months[0], months[-1]),
    }


def _months(per_month: Mapping[date, int]) -> list[date]:
    this_month = today().replace(day=1)
    # The day on which an account was opened shall not squeeze ten years of mail.
    few, found = sum(per_month.values()) // FEW, sorted(per_month)
    while found and (few := few - per_month[found[0]]) >= 0:
        del found[0]
    last = min(max([*found, this_month]), add_months(this_month, 12))
    first = max(min([*found, this_month]), add_months(last, 1 - MAX_MONTHS))
    return months_between(min(first, add_months(last, -11)), last)


def _bounds(
    counts: Iterable[MonthCount], streams: Sequence[VisibleRecords]
) -> tuple[date | None, date | None]:
    """Return the first and the last day; today for one that is not plausible in this month."""
    moments: dict[int, list[datetime]] = defaultdict(list)
    for count in counts:
        moments[count.number] += filter(None, (count.first, count.last))
    days = [
        day if is_plausible(stream, day) else today()
        for number, found in moments.items()
        for stream in (streams[number].stream,)
        for moment in (min(found), max(found))
        for day in (moment.date() if stream.has_dates_only else to_local_time(moment).date(),)
    ]
    return min(days, default=None), max(days, default=None)


def _card(
    facts: ConnectionFacts,
    counts: Sequence[MonthCount],
    plausible: Sequence[tuple[date, MonthCount]],
    streams: Sequence[VisibleRecords],
    months: Sequence[date],
) -> dict[str, Any]:
    per_month: Counter[date] = Counter()
    per_stream: Counter[int] = Counter()
    for count in counts:
        per_stream[count.number] += count.records
    for month, count in plausible:
        per_month[month] += count.records
    first, last = _bounds((count for _, count in plausible), streams)
    records, name = sum(per_stream.values()), facts.display_name
    text = f"Records by month in {name}: {pluralize(records, 'record')}"
    if first is not None and last is not None:
        text += f", from {format_day(first)} to {format_day(last)}"
    held = [each for each in streams if facts.connection_id in each.connection_for]
    return {
        "name": name,
        "source": held[0].source.display_name if held else "",
        "is_demo": facts.is_demo,
        "records": records,
        "first": first,
        "last": last,
        "freshness": freshness(last),
        "is_stale": last is not None and today() - last > STALE,
        "chart": month_chart(per_month, months, text=text),
        "streams": [
            {
                "label": stream_label(each.stream),
                "records": per_stream[number],
                "url": stream_url(facts.connection_id, each.stream.name),
            }
            for number, each in enumerate(streams)
            if per_stream[number]
        ],
    }


def freshness(last: date | None) -> str:
    """Return how old the newest record is: ``up to today``, ``60 days old``."""
    if last is None:
        return ""
    days = (today() - last).days
    if days <= 0:
        return "up to today" if days == 0 else f"reaches to {format_day(last)}"
    return f"{pluralize(days, 'day')} old" if days < 730 else f"{days // 365} years old"


def recent_readings(gate: Gate, *, now: datetime) -> list[dict[str, Any]]:
    """Return what each app read since yesterday, latest first. Two queries."""
    since, until = last_days(now, READING_DAYS)
    totals = sum_by_client(list_readings(since=since, until=until, where=APPS))
    names = dict(Client.unscoped.filter(pk__in=totals).values_list("pk", "display_name"))
    labels = {key: facts.display_name for key, facts in gate.scope.connections.items()}
    return [
        {
            "client_id": client_id,
            "name": names.get(client_id, client_id),
            "answers": total.answers,
            "records": total.records,
            "what": _connections(total, labels),
            "last": total.last,
        }
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


def today_and_earlier(
    gate: Gate, streams: Sequence[VisibleRecords], counts: Iterable[MonthCount]
) -> dict[str, Any]:
    """Return today's records by kind, and this day in earlier years, with their ledger entry.

    One or two queries for each stream with records in this month, by its index on time.
    """
    day, numbers_of = today(), streams_by_month(counts, streams)
    months = {(day + timedelta(days=n)).replace(day=1) for n in (-1, 0, 1)}
    current = {number for month in months for number in numbers_of.get(month, ())}
    cards = {layout: TodayCard(title=title) for layout, title in CARD_TITLES.items()}
    summed: list[DisclosedItem] = []
    with transaction.atomic():
        for visible in (streams[number] for number in sorted(current)):
            roles = StreamRoles(visible.stream)
            if (card := cards.get(roles.layout)) is None:
                continue
            if roles.layout == Layout.MEASURES:
                for facts in visible.connections:
                    card.facts += day_sums(visible.for_connection(facts.connection_id), roles, day)
                summed += summed_items(visible, roles.measure, roles.unit, roles.title)
                continue
            found, has_more = one_day(day).first_records(
                visible, limit=READ_OF_TODAY, descending=roles.layout != Layout.CALENDAR
            )
            card.has_more |= has_more
            is_correspondence = roles.layout in (Layout.MAILBOX, Layout.CONVERSATION)
            card.records += [each for each in found if not (is_correspondence and each.is_by_owner)]
            if roles.layout == Layout.BOOKINGS and found and not has_more:
                card.facts += _spent(visible, roles, found, day)
                summed += summed_items(visible, roles.amount, roles.currency)
        for layout, card in cards.items():
            card.records.sort(key=lambda each: each.clock, reverse=layout != Layout.CALENDAR)
        filled = [each for each in cards.values() if each.records or each.facts]
        latest = None if filled else nearest_day(streams, day, numbers_of, later=False)
        earlier = earlier_years(streams, day, numbers_of, most=SHOWN_YEARS, without=Layout.BOOKINGS)
        records = [
            *(each for card in filled for each in card.shown),
            *(each for year in earlier for each in year.records),
        ]
        if items := [*listed_items(records), *summed]:
            record_owner_read(gate.scope, items, route="home")
    link_people(records)
    return {
        "is_all_demo": are_all_demo(records),
        "today": {"day": day, "cards": filled, "latest": latest, "earlier": earlier},
    }


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


def first_steps(user: User, upkeep: Upkeep, *, has_records: bool) -> list[tuple[str, str, bool]]:
    """Return text, address and state of the steps of setting up, as long as one is not done."""
    owner_id = current_owner()
    # The app of the demo does not count.
    apps = Package.unscoped.filter(owner_id=owner_id).exclude(client__display_name=CLIENT_NAME)
    steps = [
        ("Import an export", "imports", has_records),
        ("Tell which addresses are yours", "connections", bool(known_addresses())),
        ("Connect a live account", "accounts", bool(upkeep.accounts)),
        ("Connect an app", "connect", apps.exists()),
        ("Make a backup", "backups", bool(upkeep.copies)),
        ("Add a second factor", "second-factor-settings", is_enrolled(user)),
    ]
    if all(is_done for *_, is_done in steps):
        return []
    return [(text, reverse(name), is_done) for text, name, is_done in steps]


@owner_required
def home(request: HttpRequest) -> HttpResponse:
    """Show what needs attention, today, what apps read since yesterday, and what is here."""
    now, owner_id = timezone.now(), current_owner()
    gate = Gate(owner_scope(owner_id))
    streams = gate.streams()
    counts = cached_month_counts(streams)
    shown = overview(gate, streams, counts)
    plan, copies = schedule.get_plan(owner_id), schedule.list_copies(owner_id)
    upkeep = Upkeep(list_accounts(owner_id), plan, copies)
    steps = first_steps(cast("User", request.user), upkeep, has_records=bool(shown["own"]))
    context = {
        "here": "home",
        "overview": shown,
        **today_and_earlier(gate, streams, counts),
        "steps": steps,
        "steps_done": sum(is_done for *_, is_done in steps),
        "readings": recent_readings(gate, now=now),
        "attention": list(attention(owner_id, upkeep, now=now)),
        "backups": schedule.latest(plan, copies),
    }
    return render(request, "owner/home.html", context)


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
