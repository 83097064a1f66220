"""Connected apps: what each may read, its recent calls, and pausing, resuming and disconnecting it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from evidence.access.grant_lifecycle import open_requests
from evidence.access.grant_states import (
    CURRENT_STATES,
    GrantState,
    connection_labels,
    state_of,
    terms_of,
    with_grant_state,
)
from evidence.access.grant_text import StreamDescription, merge_descriptions
from evidence.access.grants import pause_client, resume_client, revoke_client
from evidence.access.owner_notices import AlertMessage, mark_alert_seen, open_alerts
from evidence.access.quotas import quotas_by_grant
from evidence.access.scope import QuotaUsage
from evidence.events.subscriptions import receiver_hosts_by_client
from evidence.ledger.disclosures import (
    APPS,
    Reading,
    last_answer_by_client,
    list_readings,
    sum_by_client,
)
from evidence.models.grants import Grant, PermissionRequest
from evidence.models.owners import current_owner
from owner.grants.grant_forms import usage_texts
from owner.permissions import account_owner, is_owner, owner_required
from owner.site import Question, confirmation
from owner.text import describe_terms, format_time, last_days, pluralize

USAGE_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantSummary:
    """One grant as text."""

    grant_id: str
    source: str
    state: GrantState
    sentences: list[StreamDescription]
    purpose: str
    issued: str
    ends: str
    limits: list[str]
    is_temporary: bool

    @property
    def is_current(self) -> bool:
        return self.state in CURRENT_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """One client with all its grants, what it read, and the hosts of its webhooks."""

    client_id: str
    name: str
    state: GrantState
    grants: list[GrantSummary]
    last_used: str
    today: str
    week: str
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
    """Return every client that has or had a grant, current ones first. About nine queries."""
    rows = (
        with_grant_state(now)
        .filter(package__owner_id=owner_id)
        .order_by("package__client__display_name", "package__client_id", "-issued_at", "grant_id")
    )
    grants = list(rows)
    facts = _Facts(
        labels=connection_labels(owner_id),
        quotas=quotas_by_grant([grant.pk for grant in grants], now=now),
        last=last_answer_by_client(owner_id),
        today=_totals(owner_id, now, days=1),
        week=_totals(owner_id, now, days=USAGE_DAYS),
        receivers=receiver_hosts_by_client(owner_id),
        now=now,
    )
    apps = [
        _app(client_id, list(group), facts)
        for client_id, group in groupby(grants, key=lambda grant: grant.package.client_id)
    ]
    return sorted(apps, key=lambda app: not app.is_current)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What all cards need, read once: by client, by grant, or for all."""

    labels: Mapping[str, str]
    quotas: Mapping[str, list[QuotaUsage]]
    last: Mapping[str, datetime]
    today: Mapping[str, Reading]
    week: Mapping[str, Reading]
    receivers: Mapping[str, list[str]]
    now: datetime


def _totals(owner_id: str, now: datetime, *, days: int) -> dict[str, Reading]:
    since, until = last_days(now, days)
    return sum_by_client(list_readings(since=since, until=until, where=APPS))


def _amount(reading: Reading | None) -> str:
    """Return ``41 records in 6 answers``."""
    if reading is None:
        return "nothing"
    return f"{pluralize(reading.records, 'record')} in {pluralize(reading.answers, 'answer')}"


def _describe_grant(grant: Grant, facts: _Facts) -> GrantSummary:
    """Describe a row of ``grants_with_state``."""
    return GrantSummary(
        grant_id=grant.pk,
        source=grant.source.display_name,
        state=state_of(grant),
        sentences=merge_descriptions(
            describe_terms(terms, stream=stream, labels=facts.labels)
            for terms, stream in terms_of(grant)
        ),
        purpose=grant.purpose_description,
        issued=format_time(grant.issued_at),
        ends=_ends(grant),
        limits=usage_texts(facts.quotas.get(grant.pk, ())),
        is_temporary=grant.extends_id is not None,
    )


def _ends(grant: Grant) -> str:
    """Return when a current grant ends; for a single use, that is up to its first answer."""
    ends = [each for each in (grant.readable_until, grant.expires_at) if each is not None]
    if grant.access_mode == Grant.AccessMode.SINGLE_USE and grant.readable_until is None:
        latest = f", at the latest {format_time(ends[0])}" if ends else ""
        return f"ends ten minutes after the first answer{latest}"
    return f"expires {format_time(min(ends))}" if ends else "does not expire"


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


def _app(client_id: str, grants: list[Grant], facts: _Facts) -> App:
    last = facts.last.get(client_id)
    summaries = [
        _describe_grant(grant, facts)
        for grant in grants
        if state_of(grant) != GrantState.SUPERSEDED
        and (grant.extends_id is None or state_of(grant) in CURRENT_STATES)
    ]
    return App(
        client_id=client_id,
        name=grants[0].package.client.display_name,
        state=_overall_state({summary.state for summary in summaries}),
        grants=sorted(summaries, key=lambda summary: not summary.is_current),
        last_used="never" if last is None else time_ago(last, now=facts.now),
        today=_amount(facts.today.get(client_id)),
        week=_amount(facts.week.get(client_id)),
        receivers=facts.receivers.get(client_id, []),
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
    """Context processor: what pages show to their owner, queried only where a page shows it."""

    def alerts() -> list[AlertMessage]:
        return open_alerts(current_owner()) if _is_signed_in(request) else []

    def requests() -> list[PermissionRequest]:
        return open_requests(current_owner(), now=timezone.now()) if _is_signed_in(request) else []

    def administrator() -> bool:
        owner = account_owner(request.user) if _is_signed_in(request) else None
        return owner is not None and owner.is_administrator

    loaders: dict[str, Callable[[], object]] = {
        "owner_alerts": alerts,
        "waiting_requests": requests,
        "is_administrator": administrator,
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
    mark_alert_seen(int(alert_id), owner_id=current_owner(), now=timezone.now())
    return redirect("connected-apps")


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


@require_safe
@owner_required
def connected_apps(request: HttpRequest) -> HttpResponse:
    """List all apps, those without current access folded away."""
    apps = list_apps(current_owner(), now=timezone.now())
    context = {
        "here": "connected-apps",
        "current": [app for app in apps if app.is_current],
        "ended": [app for app in apps if not app.is_current],
        "usage_days": USAGE_DAYS,
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
        # Undoing a pause would also resume what was paused before it.
        undo = None if name == "pause" and app.has_paused_grant else action.undo
        address = undo and reverse(undo, query={"client": app.client_id})
        messages.success(request, action.success.format(app.name), extra_tags=address or "")
        return redirect("connected-apps")
    sentences = [
        words.sentence for grant in app.grants if grant.is_current for words in grant.sentences
    ]
    question = Question(
        title=f"{action.button} {app.name}?",
        explanation=action.explanation,
        items=dict(enumerate(sentences)),
        button=action.button,
        back=reverse("connected-apps"),
    )
    return confirmation(request, question, here="connected-apps")


def _app_or_404(client_id: str, now: datetime) -> App:
    for app in list_apps(current_owner(), now=now):
        if app.client_id == client_id:
            return app
    raise Http404
