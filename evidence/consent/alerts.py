"""What the owner has to see on every page of theirs, until they say that they have."""

from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.views.decorators.http import require_POST

from evidence.access.alerts import Told, acknowledge, standing_alerts
from evidence.consent.owners_only import is_owner, owners_page
from evidence.models.owners import OWNER_ID


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
