"""The owner's home page, and removing the demo data."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.models.connections import Connection
from evidence.models.grants import Package
from evidence.storing import backup_plans
from operations.backup import status
from operations.demo_data import CLIENT_NAME, remove_demo
from owner.attention import attention
from owner.overview import RECENT, overview, recent_readings
from owner.permissions import owner_required
from owner.site import owner


@owner_required
def home(request: HttpRequest) -> HttpResponse:
    """Show what is here, what apps read recently, and what needs attention."""
    now = timezone.now()
    gate = Gate(owner_scope(owner().pk))
    context = {
        "here": "home",
        "overview": overview(gate),
        "readings": recent_readings(gate, now=now),
        "attention": attention(owner().pk, now=now),
        "backups": status.latest(backup_plans.list_copies(owner().pk)),
        "has_app": has_app(owner().pk),
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
    demo = Connection.unscoped.filter(owner=owner(), demo=True).order_by("display_name")
    if request.method == "POST":
        remove_demo(now=timezone.now())
        messages.success(request, "The demo data is removed.")
        return redirect("home")
    if not demo:
        return redirect("home")
    return render(request, "owner/remove_demo.html", {"here": "home", "connections": demo})
