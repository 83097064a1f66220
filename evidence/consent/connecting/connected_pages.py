"""Connected apps: what each may read and how much it does, and pausing or ending it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from evidence.access.issuing import pause_client, resume_client, revoke_client
from evidence.consent.connecting.apps import App, connected
from evidence.consent.owners_only import owners_page
from evidence.models.owners import OWNER_ID

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
    return render(request, "evidence/connecting/connected.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@owners_page
def deed(request: HttpRequest, name: str) -> HttpResponse:
    """Asks on GET, does it on POST."""
    wanted = DEEDS[name]
    now = timezone.now()
    app = _app(request.GET.get("client", ""), now)
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
    return render(request, "evidence/connecting/deed.html", context)


def _app(client_id: str, now: datetime) -> App:
    for app in connected(OWNER_ID, now=now):
        if app.client_id == client_id:
            return app
    raise Http404
