"""Setup page: connection instructions for each app, its progress, and the connection check."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from evidence.access.grant_states import with_grant_state
from evidence.ledger.disclosures import first_disclosure_at
from evidence.models.owners import current_owner
from operations.doctor import HOSTS, diagnose
from owner.grants.grantable_sources import LOOPBACK_HOSTS
from owner.permissions import owner_required
from owner.text import format_time

CHECK_TIMEOUT = 5.0
"""Seconds per request of the connection check."""


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def doctor(request: HttpRequest) -> HttpResponse:
    """Run the connection check against the public URL only, and show each step."""
    host = request.POST.get("host", "")
    findings: object = ()
    if request.method == "POST":
        with httpx2.Client(timeout=CHECK_TIMEOUT) as client:
            findings = diagnose(settings.PDPP_PUBLIC_URL, client, host=host)
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


@dataclass(frozen=True, slots=True)
class ConnectionProgress:
    """Progress of the app that signed in last."""

    client: str = ""
    signed_in: str = ""
    called: str = ""


@require_safe
@owner_required
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


def connection_progress(since: datetime) -> ConnectionProgress:
    """Return the progress of the app that was last allowed access after `since`."""
    rows = with_grant_state(timezone.now()).filter(
        package__owner_id=current_owner(), package__created_at__gte=since
    )
    newest = rows.order_by("-package__created_at").first()
    if newest is None:
        return ConnectionProgress()
    package = newest.package
    grant_ids = list(rows.filter(package=package).values_list("pk", flat=True))
    first_call_at = first_disclosure_at(grant_ids)
    return ConnectionProgress(
        client=package.client.display_name,
        signed_in=format_time(package.created_at),
        called="" if first_call_at is None else format_time(first_call_at),
    )


def _since(request: HttpRequest, now: datetime) -> datetime:
    """Return the requested time, limited to the past MAX_PROGRESS_AGE."""
    try:
        since = datetime.fromisoformat(request.GET.get("since", ""))
    except ValueError:
        return now
    if since.tzinfo is None:
        return now
    return min(now, max(since, now - MAX_PROGRESS_AGE))
