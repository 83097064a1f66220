"""Connected apps: what each may read, its recent calls, and pausing, resuming and disconnecting it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from evidence.access.grant_states import (
    GrantState,
    connection_labels,
    state_of,
    terms_of,
    with_grant_state,
)
from evidence.access.grant_text import StreamDescription
from evidence.access.grants import pause_client, resume_client, revoke_client
from evidence.access.owner_notices import AlertMessage, mark_alert_seen, open_alerts
from evidence.access.permission_requests import open_requests
from evidence.events.subscriptions import receiver_hosts_by_client
from evidence.ledger.disclosures import usage_by_client
from evidence.models.accounts import OWNER_ID
from evidence.models.grants import Grant, PermissionRequest
from owner.permissions import is_owner, owner_required
from owner.text import describe_terms, format_time, pluralize

USAGE_PERIOD = timedelta(days=30)
CURRENT_STATES = (GrantState.ACTIVE, GrantState.PAUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantSummary:
    """One grant as text."""

    grant_id: str
    source: str
    state: GrantState
    sentences: list[StreamDescription]
    purpose: str
    issued: str
    expires: str
    is_temporary: bool

    @property
    def is_current(self) -> bool:
        return self.state in CURRENT_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """One client with all its grants. `calls` counts USAGE_PERIOD; `receivers` are webhook hosts."""

    client_id: str
    name: str
    state: GrantState
    grants: list[GrantSummary]
    last_used: str
    calls: int
    receivers: list[str]

    @property
    def is_current(self) -> bool:
        return self.state in CURRENT_STATES

    @property
    def is_paused(self) -> bool:
        return self.state == GrantState.PAUSED

    @property
    def has_paused_grant(self) -> bool:
        return any(grant.state == GrantState.PAUSED for grant in self.grants)


def list_apps(owner_id: str, *, now: datetime) -> list[App]:
    """Return every client that has or had a grant, current ones first. About six queries."""
    rows = (
        with_grant_state(now)
        .filter(package__owner_id=owner_id)
        .order_by("package__client__display_name", "package__client_id", "-issued_at", "grant_id")
    )
    labels = connection_labels(owner_id)
    usage = usage_by_client(since=now - USAGE_PERIOD)
    receivers = receiver_hosts_by_client(owner_id)
    apps = [
        _app(
            client_id,
            list(group),
            labels=labels,
            usage=usage,
            receivers=receivers.get(client_id, []),
            now=now,
        )
        for client_id, group in groupby(rows, key=lambda grant: grant.package.client_id)
    ]
    return sorted(apps, key=lambda app: not app.is_current)


def describe_grant(grant: Grant, *, labels: Mapping[str, str]) -> GrantSummary:
    """Describe a row of ``grants_with_state``."""
    return GrantSummary(
        grant_id=grant.pk,
        source=grant.source.display_name,
        state=state_of(grant),
        sentences=[
            describe_terms(terms, stream=stream, labels=labels) for terms, stream in terms_of(grant)
        ],
        purpose=grant.purpose_description,
        issued=format_time(grant.issued_at),
        expires=format_time(grant.expires_at, never=""),
        is_temporary=grant.extends_id is not None,
    )


def time_ago(moment: datetime, *, now: datetime) -> str:
    """Return ``just now``, ``5 minutes ago``, ``2 days ago``, or the date after six days."""
    seconds = max(0, int((now - moment).total_seconds()))
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            if unit == "day" and count > 6:
                return f"on {format_time(moment)}"
            return f"{pluralize(count, unit)} ago"
    return "just now"


def _app(
    client_id: str,
    grants: list[Grant],
    *,
    labels: Mapping[str, str],
    usage: Mapping[str, tuple[datetime, int]],
    receivers: list[str],
    now: datetime,
) -> App:
    last_used_at, calls = usage.get(client_id, (None, 0))
    summaries = [
        describe_grant(grant, labels=labels)
        for grant in grants
        if state_of(grant) != GrantState.SUPERSEDED
        and (grant.extends_id is None or state_of(grant) in CURRENT_STATES)
    ]
    return App(
        client_id=client_id,
        name=grants[0].package.client.display_name,
        state=_overall_state({summary.state for summary in summaries}),
        grants=sorted(summaries, key=lambda summary: not summary.is_current),
        last_used="never" if last_used_at is None else time_ago(last_used_at, now=now),
        calls=calls,
        receivers=receivers,
    )


def _overall_state(states: Iterable[GrantState]) -> GrantState:
    order = (
        GrantState.ACTIVE,
        GrantState.PAUSED,
        GrantState.CONSUMED,
        GrantState.EXPIRED,
        GrantState.REVOKED,
    )
    return min(states, key=order.index, default=GrantState.REVOKED)


def unseen_alerts(request: HttpRequest) -> dict[str, Any]:
    """Context processor: alerts and open permission requests, queried only where a page shows them."""

    def alerts() -> list[AlertMessage]:
        return open_alerts(OWNER_ID) if _is_signed_in(request) else []

    def requests() -> list[PermissionRequest]:
        return open_requests(OWNER_ID, now=timezone.now()) if _is_signed_in(request) else []

    loaders: dict[str, Callable[[], object]] = {
        "owner_alerts": alerts,
        "waiting_requests": requests,
    }
    return {name: SimpleLazyObject(load) for name, load in loaders.items()}


def _is_signed_in(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    return user is not None and is_owner(user)


@require_POST
@owner_required
def acknowledge_alert(request: HttpRequest) -> HttpResponse:
    """Mark an alert as seen; the grant that it is about does not change."""
    alert_id = request.POST.get("alert", "")
    if not (alert_id.isascii() and alert_id.isdigit() and len(alert_id) <= 18):
        raise Http404
    mark_alert_seen(int(alert_id), owner_id=OWNER_ID, now=timezone.now())
    return redirect("connected-apps")


@dataclass(frozen=True, slots=True)
class AppAction:
    """An action on an app, with the texts of its confirmation page."""

    title: str
    explanation: str
    button: str
    success: str
    run: Callable[[str, datetime], object]
    is_destructive: bool = False


APP_ACTIONS = {
    "pause": AppAction(
        "Pause {}?",
        "The app cannot read anything until you resume it. It stays signed in.",
        "Pause",
        "{} is paused and cannot read anything.",
        lambda client_id, now: pause_client(client_id, now=now),
    ),
    "resume": AppAction(
        "Resume {}?",
        "The app can read what you allowed before, from the next request.",
        "Resume",
        "{} can read again.",
        lambda client_id, now: resume_client(client_id),
    ),
    "disconnect": AppAction(
        "Disconnect {}?",
        "The app loses access now and is signed out. This cannot be undone; reconnect it to give"
        " access again.",
        "Disconnect",
        "{} is disconnected.",
        lambda client_id, now: revoke_client(client_id, now=now),
        is_destructive=True,
    ),
}


@require_safe
@owner_required
def connected_apps(request: HttpRequest) -> HttpResponse:
    """List all apps, those without current access folded away."""
    apps = list_apps(OWNER_ID, now=timezone.now())
    context = {
        "here": "connected-apps",
        "current": [app for app in apps if app.is_current],
        "ended": [app for app in apps if not app.is_current],
    }
    return render(request, "owner/apps/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def app_action(request: HttpRequest, name: str) -> HttpResponse:
    """Ask for confirmation on GET, and run the action on POST."""
    action = APP_ACTIONS[name]
    now = timezone.now()
    app = _app_or_404(request.GET.get("client", ""), now)
    if request.method == "POST":
        action.run(app.client_id, now)
        messages.success(request, action.success.format(app.name))
        return redirect("connected-apps")
    context = {
        "here": "connected-apps",
        "app": app,
        "action": action,
        "title": action.title.format(app.name),
    }
    return render(request, "owner/apps/confirm.html", context)


def _app_or_404(client_id: str, now: datetime) -> App:
    for app in list_apps(OWNER_ID, now=now):
        if app.client_id == client_id:
            return app
    raise Http404
