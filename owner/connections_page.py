"""Connections: a list, and a page on which one is renamed, paused or revoked. Imports create them."""

from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone

from evidence import limits
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection, StreamState
from evidence.models.owners import current_owner
from evidence.write.connections import is_name_taken, set_languages, validate_identities
from evidence.write.erasure_orders import ErasureScope
from evidence.write.targets import connection_targets
from owner.form_fields import PlainForm, language_choices, set_choices, validate_printable
from owner.permissions import owner_required
from owner.records import connection_streams, erasure_pages
from owner.records.connection_streams import stream_lines

Status = Connection.Status
MEANINGS = {
    Status.DRAFT: "Draft: no records yet. The first record makes it active.",
    Status.ACTIVE: "Active: it receives new records, and grants can read it.",
    Status.PAUSED: "Paused: no new records are fetched. Stored records can be read,"
    " and you can import files.",
    Status.REVOKED: "Revoked: it receives no records, and no grant can read it."
    " Its records stay stored and return when you make it active again.",
}


class ConnectionForm(PlainForm[Connection]):
    display_name = forms.CharField(
        label="Name",
        max_length=limits.LABEL_MAX_CHARS,
        help_text="Apps see this name too.",
        widget=forms.TextInput(attrs={"size": 40}),
    )
    languages = forms.MultipleChoiceField(
        label="Languages",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="The languages of its texts. A search for one form of a word finds its other"
        " forms. After a change, stored texts are indexed again in the background; until then,"
        " searches show a warning and may miss some forms.",
    )
    identities = forms.CharField(
        label="Your addresses or user ids",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 40}),
        help_text="One per line. Apps learn from them which records you wrote. All other"
        " records count as written by others.",
    )
    replaces = forms.BooleanField(
        label="Replace records of streams that only grow",
        required=False,
        help_text="A collector may send a record again after it changed. Without this, the stored"
        " record stays, and the collector gets a receipt.",
    )
    status = forms.ChoiceField(label="Status", widget=forms.RadioSelect)

    class Meta:
        model = Connection
        fields = ("display_name", "languages", "identities", "replaces", "status")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_choices(self, "languages", language_choices(self.instance.languages))
        if not any(target.is_append_only for target in connection_targets(self.instance)):
            del self.fields["replaces"]
        self.initial["identities"] = "\n".join(self.instance.identities)
        offered = [s for s in Status if s != Status.DRAFT or self.instance.status == Status.DRAFT]
        set_choices(self, "status", [(each.value, MEANINGS[each]) for each in offered])

    def clean_display_name(self) -> str:
        name = validate_printable(self.cleaned_data["display_name"])
        connection = self.instance
        if is_name_taken(name, owner_id=current_owner(), connection_id=connection.pk):
            raise forms.ValidationError("Another connection has this name. Choose another.")
        return name

    def clean_identities(self) -> list[str]:
        try:
            return validate_identities(self.cleaned_data["identities"].splitlines())
        except InvalidRequest as refusal:
            raise forms.ValidationError(refusal.message) from refusal


def connections_with_totals() -> QuerySet[Connection]:
    """Return the owner's connections by name; ``total`` is how many records each holds."""
    states = StreamState.unscoped.filter(connection=OuterRef("pk")).values("connection")
    total = Subquery(states.annotate(total=Sum("record_count")).values("total"))
    own = Connection.unscoped.filter(owner_id=current_owner()).select_related("source")
    return own.annotate(total=Coalesce(total, 0)).order_by("display_name", "pk")


@owner_required
def connections_page(request: HttpRequest) -> HttpResponse:
    """List all connections with their source, records and status."""
    context = {"here": "connections", "connections": connections_with_totals()}
    return render(request, "owner/connections/list.html", context)


@owner_required
def connection_page(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Show what a connection holds, and a form to change it."""
    connection = get_object_or_404(connections_with_totals(), pk=connection_id.replace("\0", ""))
    name = connection.label
    form = ConnectionForm(request.POST or None, instance=connection)
    if form.is_valid():
        _save(form)
        messages.success(request, "Saved.")
        return redirect(connection_url(connection.pk))
    context = {
        "here": "connections",
        "name": name,
        "connection": connection,
        "form": form,
        "stream_lines": stream_lines(connection),
        "erase_url": erasure_pages.url(ErasureScope.CONNECTION, connection_id=connection.pk),
        "keep_url": connection_streams.url(connection.pk),
    }
    return render(request, "owner/connections/connection.html", context)


def connection_url(connection_id: str) -> str:
    return reverse("connection", args=[connection_id])


def _save(form: ConnectionForm) -> None:
    connection = form.instance
    connection.updated_at = timezone.now()
    if "display_name" in form.changed_data:
        connection.labelled_by_owner = True
    changed = [name for name in ("identities", "replaces", "status") if name in form.fields]
    connection.save(update_fields=["display_name", "labelled_by_owner", *changed, "updated_at"])
    if "languages" in form.changed_data:
        set_languages(connection.pk, languages=connection.languages, now=connection.updated_at)
