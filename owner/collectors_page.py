"""Collectors: programs that store records of some connections. Add one, see its last use, revoke it."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from evidence import limits
from evidence.access.grant_states import connection_labels
from evidence.access.tokens import create_collector, list_collectors, revoke_collector
from evidence.models.connections import Connection
from evidence.models.owners import current_owner
from owner.form_fields import set_choices, validate_printable
from owner.permissions import owner_required
from owner.text import format_time


class CollectorForm(forms.Form):
    name = forms.CharField(
        max_length=limits.LABEL_MAX_CHARS,
        help_text="Such as the program and the machine it runs on.",
    )
    connections = forms.MultipleChoiceField(
        label="May write to",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose a connection."},
    )

    def clean_name(self) -> str:
        return validate_printable(self.cleaned_data["name"])

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = Connection.unscoped.exclude(status=Connection.Status.REVOKED)
        labels = [(each.pk, each.label) for each in own.order_by("display_name", "pk")]
        set_choices(self, "connections", labels)


@owner_required
def collectors_page(request: HttpRequest) -> HttpResponse:
    """List collectors, and add one: its token is shown once."""
    form = CollectorForm(request.POST or None)
    token = None
    if form.is_valid():
        chosen = form.cleaned_data
        token = create_collector(chosen["name"], chosen["connections"], now=timezone.now())
        form = CollectorForm()
    labels = connection_labels(current_owner())
    collectors = [
        {
            "id": row.pk,
            "name": row.name,
            "places": [labels.get(each, each) for each in row.connection_ids],
            "created": format_time(row.created_at),
            "used": format_time(row.used_at, never="never"),
        }
        for row in list_collectors()
    ]
    context = {"here": "collectors", "form": form, "token": token, "collectors": collectors}
    return render(request, "owner/connections/collectors.html", context)


@owner_required
def revoke_collector_page(request: HttpRequest, collector_id: str) -> HttpResponse:
    """Revoke a collector by a form of the list."""
    if request.method == "POST" and revoke_collector(
        collector_id.replace("\0", ""), now=timezone.now()
    ):
        messages.success(request, "Revoked. Its token stops working now; what it stored stays.")
    return redirect("collectors")
