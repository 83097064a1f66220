"""Apps: how to connect one, what each may read, its recent calls, and pausing or disconnecting it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from django.contrib import messages
from django.contrib.humanize.templatetags.humanize import naturaltime
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.http import url_has_allowed_host_and_scheme

from evidence.access.grant_lifecycle import open_requests
from evidence.access.grant_states import (
    CURRENT_STATES,
    GrantState,
    connection_labels,
    state_of,
    terms_of,
    with_grant_state,
)
from evidence.access.grant_text import merge_descriptions
from evidence.access.grants import pause_client, resume_client, revoke_client
from evidence.access.owner_notices import mark_alert_seen, open_alerts
from evidence.access.quotas import quotas_by_grant
from evidence.access.scope import QuotaUsage
from evidence.events.subscriptions import receiver_hosts_by_client
from evidence.ledger.disclosures import (
    APPS,
    first_disclosure_at,
    last_answer_by_client,
    list_readings,
    sum_by_client,
)
from evidence.models.grants import Grant
from evidence.models.owners import Owner, current_owner
from operations.doctor import HOSTS, Outcome, diagnose
from owner.grants.grant_forms import usage_texts
from owner.grants.grantable_sources import LOOPBACK_HOSTS
from owner.permissions import account_owner, is_owner, owner_posts, owner_reads, owner_required
from owner.site import Question, confirmation
from owner.text import describe_terms, format_time, last_days, pluralize

USAGE_DAYS = 7
STATES = (GrantState.ACTIVE, GrantState.PAUSED, GrantState.CONSUMED, GrantState.EXPIRED,
          GrantState.REVOKED)  # fmt: skip
"""An app has the first of these states that a grant of it has."""


def list_apps(owner_id: str, *, now: datetime) -> list[dict[str, Any]]:
    """Return every client that has or had a grant, current ones first. About nine queries."""
    rows = (
        with_grant_state(now)
        .filter(package__owner_id=owner_id)
        .order_by("package__client__display_name", "package__client_id", "-issued_at", "grant_id")
    )
    grants = list(rows)
    labels = connection_labels(owner_id)
    quotas = quotas_by_grant([grant.pk for grant in grants], now=now)
    last = last_answer_by_client(owner_id)
    today, week = _amounts(now, days=1), _amounts(now, days=USAGE_DAYS)
    receivers = receiver_hosts_by_client(owner_id)
    apps = []
    for client_id, group in groupby(grants, key=lambda grant: grant.package.client_id):
        own = list(group)
        described = [
            _describe_grant(grant, labels, quotas.get(grant.pk, ()))
            for grant in own
            if state_of(grant) != GrantState.SUPERSEDED
            and (grant.extends_id is None or state_of(grant) in CURRENT_STATES)
        ]
        state = min((each["state"] for each in described), key=STATES.index, default=STATES[-1])
        apps.append({
            "client_id": client_id,
            "name": own[0].package.client.display_name,
            "state": state,
            "grants": sorted(described, key=lambda grant: not grant["is_current"]),
            "is_current": state in CURRENT_STATES,
            "is_paused": state == GrantState.PAUSED,
            "has_paused_grant": any(each["state"] == GrantState.PAUSED for each in described),
            "last_used": naturaltime(last[client_id]) if client_id in last else "never",
            "today": today.get(client_id, "nothing"),
            "week": week.get(client_id, "nothing"),
            "receivers": receivers.get(client_id, []),
        })  # fmt: skip
    return sorted(apps, key=lambda app: not app["is_current"])


def _amounts(now: datetime, *, days: int) -> dict[str, str]:
    """Return ``41 records in 6 answers`` for each client that read in the last days."""
    since, until = last_days(now, days)
    totals = sum_by_client(list_readings(since=since, until=until, where=APPS))
    return {
        client_id: f"{pluralize(each.records, 'record')} in {pluralize(each.answers, 'answer')}"
        for client_id, each in totals.items()
    }


def _describe_grant(
    grant: Grant, labels: Mapping[str, str], limits: Sequence[QuotaUsage]
) -> dict[str, Any]:
    return {
        "grant_id": grant.pk,
        "source": grant.source.display_name,
        "state": state_of(grant),
        "is_current": state_of(grant) in CURRENT_STATES,
        "sentences": merge_descriptions(
            describe_terms(terms, stream=stream, labels=labels) for terms, stream in terms_of(grant)
        ),
        "purpose": grant.purpose_description,
        "issued": format_time(grant.issued_at),
        "ends": _ends(grant),
        "limits": usage_texts(limits),
        "is_temporary": grant.extends_id is not None,
    }


def _ends(grant: Grant) -> str:
    """Return when a current grant ends; for a single use, that is up to its first answer."""
    ends = [each for each in (grant.readable_until, grant.expires_at) if each is not None]
    if grant.access_mode == Grant.AccessMode.SINGLE_USE and grant.readable_until is None:
        latest = f", at the latest {format_time(ends[0])}" if ends else ""
        return f"ends ten minutes after the first answer{latest}"
    return f"expires {format_time(min(ends))}" if ends else "does not expire"


def unseen_alerts(request: HttpRequest) -> dict[str, Any]:
    """Context processor: what pages show to their owner, queried only where a page shows it."""

    def signed_in() -> Owner | None:
        user = getattr(request, "user", None)
        return account_owner(user) if user is not None and is_owner(user) else None

    loaders: dict[str, Callable[[], object]] = {
        "owner_alerts": lambda: open_alerts(current_owner()) if signed_in() else [],
        "waiting_requests": lambda: (
            open_requests(current_owner(), now=timezone.now()) if signed_in() else []
        ),
        "is_administrator": lambda: (owner := signed_in()) is not None and owner.is_administrator,
    }
    return {name: SimpleLazyObject(load) for name, load in loaders.items()}


@owner_posts
def acknowledge_alert(request: HttpRequest) -> HttpResponse:
    """Mark an alert as seen, and return to the page that showed it. Its grant does not change."""
    alert_id = request.POST.get("alert", "")
    if not (alert_id.isascii() and alert_id.isdigit() and len(alert_id) <= 18):
        raise Http404
    mark_alert_seen(int(alert_id), owner_id=current_owner(), now=timezone.now())
    page = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(page, {request.get_host()}, request.is_secure())
    return redirect(page if is_ours else "connected-apps")


@dataclass(frozen=True, slots=True)
class AppAction:
    """An action on an app, with the texts of its confirmation page."""

    explanation: str
    button: str
    success: str
    run: Callable[[str, datetime], object]
    undo: str = ""
    """The name of the action that undoes this one; without any, it cannot be undone."""


APP_ACTIONS = {
    "pause": AppAction(
        "The app cannot read anything until you resume it. It stays signed in.",
        "Pause",
        "{} is paused and cannot read anything.",
        lambda client_id, now: pause_client(client_id, now=now),
        "app-resume",
    ),
    "resume": AppAction(
        "The app can read what you allowed before, from the next request.",
        "Resume",
        "{} can read again.",
        lambda client_id, now: resume_client(client_id),
        "app-pause",
    ),
    "disconnect": AppAction(
        "The app loses access now and is signed out. This cannot be undone; reconnect it to give"
        " access again.",
        "Disconnect",
        "{} is disconnected.",
        lambda client_id, now: revoke_client(client_id, now=now),
    ),
}


@owner_reads
def connected_apps(request: HttpRequest) -> HttpResponse:
    """List all apps, those without current access folded away."""
    apps = list_apps(current_owner(), now=timezone.now())
    context = {
        "here": "connected-apps",
        "current": [app for app in apps if app["is_current"]],
        "ended": [app for app in apps if not app["is_current"]],
        "usage_days": USAGE_DAYS,
    }
    return render(request, "owner/apps/list.html", context)


@owner_required
def app_action(request: HttpRequest, name: str) -> HttpResponse:
    """Ask for confirmation on GET, and run the action on POST."""
    action = APP_ACTIONS[name]
    now = timezone.now()
    client_id = request.GET.get("client", "")
    found = (app for app in list_apps(current_owner(), now=now) if app["client_id"] == client_id)
    if (app := next(found, None)) is None:
        raise Http404
    if request.method == "POST":
        action.run(client_id, now)
        # Undoing a pause would also resume what was paused before it.
        undo = None if name == "pause" and app["has_paused_grant"] else action.undo
        address = undo and reverse(undo, query={"client": client_id})
        messages.success(request, action.success.format(app["name"]), extra_tags=address or "")
        return redirect("connected-apps")
    sentences = [
        words.sentence
        for grant in app["grants"]
        if grant["is_current"]
        for words in grant["sentences"]
    ]
    question = Question(
        title=f"{action.button} {app['name']}?",
        explanation=action.explanation,
        items=dict(enumerate(sentences)),
        button=action.button,
        back=reverse("connected-apps"),
        is_final=not action.undo,
    )
    return confirmation(request, question, here="connected-apps")


CHECK_TIMEOUT = 5.0
"""Seconds per request of the connection check."""


@owner_required
def doctor(request: HttpRequest) -> HttpResponse:
    """Run the connection check against the public URL only, and show each step that was tried."""
    host = request.POST.get("host", "")
    findings: object = ()
    if request.method == "POST":
        with httpx2.Client(timeout=CHECK_TIMEOUT) as client:
            found = diagnose(settings.PDPP_PUBLIC_URL, client, host=host)
        findings = [each for each in found if each.outcome != Outcome.SKIPPED]
    context = {
        "here": "connect",
        "url": settings.PDPP_PUBLIC_URL,
        "hosts": HOSTS.values(),
        "host": host,
        "findings": findings,
    }
    return render(request, "owner/connect/check.html", context)


def is_public(url: str) -> bool:
    """Return whether apps on the internet may reach `url`: https, and not loopback."""
    parts = urlsplit(url)
    return parts.scheme == "https" and parts.hostname not in LOOPBACK_HOSTS


MAX_PROGRESS_AGE = timedelta(hours=24)


@owner_reads
def connect(request: HttpRequest) -> HttpResponse:
    """Show the page. `since` in the URL keeps the progress across reloads."""
    url = settings.PDPP_PUBLIC_URL
    since = _since(request, timezone.now())
    context = {
        "here": "connect",
        "endpoint": f"{url}/mcp",
        "is_http": url.startswith("http://"),
        "is_public": is_public(url),
        "since": since.isoformat(),
        "progress": connection_progress(since),
    }
    return render(request, "owner/connect/setup.html", context)


def connection_progress(since: datetime) -> dict[str, str]:
    """Return the progress of the app that was last allowed access after `since`."""
    rows = with_grant_state(timezone.now()).filter(
        package__owner_id=current_owner(), package__created_at__gte=since
    )
    newest = rows.order_by("-package__created_at").first()
    if newest is None:
        return {}
    package = newest.package
    grant_ids = list(rows.filter(package=package).values_list("pk", flat=True))
    return {
        "client": package.client.display_name,
        "signed_in": format_time(package.created_at),
        "called": format_time(first_disclosure_at(grant_ids), never=""),
    }


def _since(request: HttpRequest, now: datetime) -> datetime:
    """Return the requested time, limited to the past MAX_PROGRESS_AGE."""
    try:
        since = datetime.fromisoformat(request.GET.get("since", ""))
    except ValueError:
        return now
    if since.tzinfo is None:
        return now
    return min(now, max(since, now - MAX_PROGRESS_AGE))
