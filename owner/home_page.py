"""The owner's home page: what needs the owner, and removing the demo data."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib import messages
from django.db.models import Count, Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from evidence.access.gate import Gate
from evidence.access.grant_text import format_day
from evidence.access.owner_notices import ending_grants, open_alerts, refused_calls
from evidence.access.owner_scope import owner_scope
from evidence.access.permission_requests import link_token, open_requests, request_sentence
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
from owner.overview import RECENT, overview, recent_readings
from owner.permissions import owner_required
from owner.text import format_time, pluralize

ENDING_SOON = timedelta(days=14)
FAILED_IMPORTS = timedelta(days=30)


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
            reverse("admin:password_change"),
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


@owner_required
def home(request: HttpRequest) -> HttpResponse:
    """Show what is here, what apps read recently, and what needs attention."""
    now = timezone.now()
    gate = Gate(owner_scope(current_owner()))
    context = {
        "here": "home",
        "overview": overview(gate),
        "readings": recent_readings(gate, now=now),
        "attention": attention(current_owner(), now=now),
        "backups": schedule.latest(
            schedule.get_plan(current_owner()), schedule.list_copies(current_owner())
        ),
        "has_app": has_app(current_owner()),
        "days": RECENT.days,
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
    return render(request, "owner/remove_demo.html", {"here": "home", "connections": demo})
