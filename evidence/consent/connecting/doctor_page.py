"""Why does it not connect? The owner has this server walk to itself as a host would."""

import httpx2
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from evidence.consent.owners_only import owners_page
from evidence.operating.doctor import HOSTS, diagnose

SECONDS = 5.0
"""A page is waited for; whatever takes longer than this would fail in a host, too."""


@require_http_methods(["GET", "HEAD", "POST"])
@owners_page
def doctor(request: HttpRequest) -> HttpResponse:
    """The walk goes to the public address and nowhere else, whoever asks."""
    host = request.POST.get("host", "")
    context = {
        "here": "connect",
        "url": settings.PDPP_PUBLIC_URL,
        "hosts": HOSTS.values(),
        "host": host,
        "findings": _walked(host) if request.method == "POST" else (),
    }
    return render(request, "evidence/connecting/doctor.html", context)


def _walked(host: str) -> object:
    with httpx2.Client(timeout=SECONDS) as client:
        return diagnose(settings.PDPP_PUBLIC_URL, client, host=host)
