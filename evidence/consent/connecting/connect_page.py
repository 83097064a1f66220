"""How to connect an agent, with the address filled in, and what has come of it so far."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from evidence.access.held import grants_with_state
from evidence.consent.connecting.ways import is_public, ways
from evidence.consent.owners_only import owners_page
from evidence.consent.wording import when
from evidence.ledger.looking import first_under
from evidence.models.owners import OWNER_ID

LONGEST_WAIT = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a program has come that signed in since the page was opened."""

    client: str = ""
    signed_in: str = ""
    called: str = ""

    @property
    def stage(self) -> str:
        if self.called:
            return "called"
        return "signed-in" if self.client else "waiting"


@require_safe
@owners_page
def connect(request: HttpRequest) -> HttpResponse:
    """The page; with ``since`` it goes on waiting for what it waited for before."""
    url = settings.PDPP_PUBLIC_URL
    since = _since(request, timezone.now())
    context = {
        "here": "connect",
        "endpoint": f"{url}/mcp",
        "ways": ways(url),
        "is_public": is_public(url),
        "since": since.isoformat(),
        "progress": progress(since),
    }
    return render(request, "evidence/connecting/connect.html", context)


@require_safe
@owners_page
def connect_status(request: HttpRequest) -> HttpResponse:
    """The part of the page that changes, for its script."""
    found = progress(_since(request, timezone.now()))
    return render(request, "evidence/connecting/progress.html", {"progress": found})


def progress(since: datetime) -> Progress:
    """Of the program that signed in last since then."""
    rows = grants_with_state(timezone.now()).filter(
        package__owner_id=OWNER_ID, package__created_at__gte=since
    )
    newest = rows.order_by("-package__created_at").first()
    if newest is None:
        return Progress()
    package = newest.package
    together = list(rows.filter(package=package).values_list("pk", flat=True))
    first = first_under(together)
    return Progress(
        client=package.client.display_name,
        signed_in=when(package.created_at),
        called="" if first is None else when(first),
    )


def _since(request: HttpRequest, now: datetime) -> datetime:
    """As asked, but neither in the future nor long ago."""
    try:
        asked = datetime.fromisoformat(request.GET.get("since", ""))
    except ValueError:
        return now
    if asked.tzinfo is None:
        return now
    return min(now, max(asked, now - LONGEST_WAIT))
