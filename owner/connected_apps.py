"""The programs that hold something, as their owner sees them."""

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
    State,
    connection_labels,
    grants_with_state,
    state_of,
    terms_of,
)
from evidence.access.grant_text import StreamInWords
from evidence.access.grants import pause_client, resume_client, revoke_client
from evidence.access.owner_notices import Told, acknowledge, standing_alerts
from evidence.events.subscriptions import receivers_by_client
from evidence.ledger.disclosures import use_by_client
from evidence.models.accounts import OWNER_ID
from evidence.models.grants import Grant
from owner.formatting import when, worded
from owner.permissions import is_owner, owners_page

MONTH = timedelta(days=30)
STANDING = (State.ACTIVE, State.PAUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGrant:
    """One grant in words."""

    grant_id: str
    source: str
    state: State
    sentences: list[StreamInWords]
    purpose: str
    given: str
    ends: str

    @property
    def is_standing(self) -> bool:
        return self.state in STANDING


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """One client with all that it holds. ``calls`` are those of the last 30 days, ``receivers`` the
    hosts that are told of changes for it."""

    client_id: str
    name: str
    state: State
    grants: list[HeldGrant]
    last_used: str
    calls: int
    receivers: list[str]

    @property
    def is_standing(self) -> bool:
        return self.state in STANDING

    @property
    def is_paused(self) -> bool:
        return self.state == State.PAUSED

    @property
    def has_pause(self) -> bool:
        """Whether any of its grants is paused, as one may be by itself."""
        return any(grant.state == State.PAUSED for grant in self.grants)


def connected(owner_id: str, *, now: datetime) -> list[App]:
    """Every client that was ever given something, those that can read first; some six queries."""
    rows = (
        grants_with_state(now)
        .filter(package__owner_id=owner_id)
        .order_by("package__client__display_name", "package__client_id", "-issued_at", "grant_id")
    )
    labels = connection_labels(owner_id)
    used = use_by_client(since=now - MONTH)
    receivers = receivers_by_client(owner_id)
    apps = [
        _app(
            client_id,
            list(group),
            labels=labels,
            used=used,
            receivers=receivers.get(client_id, []),
            now=now,
        )
        for client_id, group in groupby(rows, key=lambda grant: grant.package.client_id)
    ]
    return sorted(apps, key=lambda app: not app.is_standing)


def held(grant: Grant, *, labels: Mapping[str, str]) -> HeldGrant:
    """A row of ``grants_with_state`` in words."""
    return HeldGrant(
        grant_id=grant.pk,
        source=grant.source.display_name,
        state=state_of(grant),
        sentences=[
            worded(terms, stream=stream, labels=labels) for terms, stream in terms_of(grant)
        ],
        purpose=grant.purpose_description,
        given=when(grant.issued_at),
        ends=when(grant.expires_at, never="when you end it"),
    )


def ago(moment: datetime, *, now: datetime) -> str:
    """``just now``, ``5 minutes ago``, ``yesterday``, a date."""
    seconds = max(0, int((now - moment).total_seconds()))
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            if name == "day" and count > 6:
                return f"on {when(moment)}"
            return f"{count} {name}{'' if count == 1 else 's'} ago"
    return "just now"


def _app(
    client_id: str,
    grants: list[Grant],
    *,
    labels: Mapping[str, str],
    used: Mapping[str, tuple[datetime, int]],
    receivers: list[str],
    now: datetime,
) -> App:
    last_at, calls = used.get(client_id, (None, 0))
    shown = [held(grant, labels=labels) for grant in grants if state_of(grant) != State.SUPERSEDED]
    return App(
        client_id=client_id,
        name=grants[0].package.client.display_name,
        state=_state({each.state for each in shown}),
        grants=sorted(shown, key=lambda each: not each.is_standing),
        last_used="never" if last_at is None else ago(last_at, now=now),
        calls=calls,
        receivers=receivers,
    )


def _state(states: Iterable[State]) -> State:
    """The liveliest of them."""
    order = (State.ACTIVE, State.PAUSED, State.CONSUMED, State.EXPIRED, State.REVOKED)
    return min(states, key=order.index, default=State.REVOKED)


def standing(request: HttpRequest) -> dict[str, Any]:
    """A context processor; the rows are read where a page shows them, and for the owner alone."""

    def told() -> list[Told]:
        user = getattr(request, "user", None)
        return standing_alerts(OWNER_ID) if user is not None and is_owner(user) else []

    wanted: Callable[[], object] = told
    return {"owner_alerts": SimpleLazyObject(wanted)}


@require_POST
@owners_page
def seen(request: HttpRequest) -> HttpResponse:
    """The owner has seen an alert; what it tells of stays as it is."""
    number = request.POST.get("alert", "")
    if not (number.isascii() and number.isdigit() and len(number) <= 18):
        raise Http404
    acknowledge(int(number), owner_id=OWNER_ID, now=timezone.now())
    return redirect("connected")


HERE = "connected"


@dataclass(frozen=True, slots=True)
class Deed:
    """What can be done to an app, asked for before it is done."""

    question: str
    explanation: str
    button: str
    done: str
    do: Callable[[str, datetime], object]
    is_end: bool = False


DEEDS = {
    "pause": Deed(
        "Pause {}?",
        "From the next request on it reads nothing, until you resume it. It stays signed in.",
        "Pause it",
        "{} is paused and reads nothing.",
        lambda client_id, now: pause_client(client_id, now=now),
    ),
    "resume": Deed(
        "Resume {}?",
        "From the next request on it reads again what you had given it.",
        "Resume it",
        "{} reads again.",
        lambda client_id, now: resume_client(client_id),
    ),
    "end": Deed(
        "Disconnect {}?",
        "From the next request on it reads nothing, and its sign-in is worth nothing. This cannot be"
        " undone; to let it read again, connect it anew.",
        "Disconnect it",
        "{} is disconnected.",
        lambda client_id, now: revoke_client(client_id, now=now),
        is_end=True,
    ),
}


@require_safe
@owners_page
def connected_apps(request: HttpRequest) -> HttpResponse:
    """Everything that was ever given to a program; what has ended is folded away."""
    apps = connected(OWNER_ID, now=timezone.now())
    context = {
        "here": HERE,
        "standing": [app for app in apps if app.is_standing],
        "ended": [app for app in apps if not app.is_standing],
    }
    return render(request, "owner/connecting/connected.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@owners_page
def deed(request: HttpRequest, name: str) -> HttpResponse:
    """Asks on GET, does it on POST."""
    wanted = DEEDS[name]
    now = timezone.now()
    app = _app_or_404(request.GET.get("client", ""), now)
    if request.method == "POST":
        wanted.do(app.client_id, now)
        messages.success(request, wanted.done.format(app.name))
        return redirect("connected")
    context = {
        "here": HERE,
        "app": app,
        "deed": wanted,
        "title": wanted.question.format(app.name),
    }
    return render(request, "owner/connecting/deed.html", context)


def _app_or_404(client_id: str, now: datetime) -> App:
    for app in connected(OWNER_ID, now=now):
        if app.client_id == client_id:
            return app
    raise Http404
