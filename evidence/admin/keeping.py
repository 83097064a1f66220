"""How long a connection's records are kept: a number of days for all streams, or one for each."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import quote
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from evidence.access.describing import humanised, stream_label
from evidence.admin.base import owner, page
from evidence.models.connections import Connection
from evidence.models.declared import declared
from evidence.storing.retaining import LONGEST_DAYS, keep_for, kept_for

ALL = ""


class KeepForm(forms.Form):
    """A field for each stream, and a first one for those that have no number of their own."""

    def __init__(
        self, data: Mapping[str, Any] | None, *, streams: Mapping[str, str], kept: Mapping[str, int]
    ) -> None:
        super().__init__(data)
        self.streams = [ALL, *streams]
        for number, name in enumerate(self.streams):
            self.fields[f"days_{number}"] = forms.IntegerField(
                label=streams.get(name, "Every stream without a number of its own"),
                required=False,
                min_value=1,
                max_value=LONGEST_DAYS,
                initial=kept.get(name),
                help_text="days; empty: for good" if name == ALL else "",
            )

    @property
    def days(self) -> dict[str, int | None]:
        """stream -> days, once the form holds."""
        said = self.cleaned_data
        return {name: said[f"days_{number}"] for number, name in enumerate(self.streams)}


def url(connection_id: str) -> str:
    return f"{reverse('admin:evidence_keep')}?connection={connection_id}"


def keep(request: HttpRequest) -> HttpResponse:
    """Shows the periods, and sets them."""
    connection = Connection.unscoped.filter(
        owner=owner(), pk=request.GET.get("connection", "").replace("\0", "")
    ).first()
    if connection is None:
        raise Http404
    data = request.POST if request.method == "POST" else None
    form = KeepForm(data, streams=_streams(connection), kept=kept_for(connection.pk))
    back = reverse("admin:evidence_connection_change", args=[quote(connection.pk)])
    if data is not None and form.is_valid():
        for stream, days in form.days.items():
            keep_for(connection.pk, stream=stream, days=days, now=timezone.now())
        messages.success(request, "What is older is erased within the hour, and every hour after.")
        return redirect(back)
    context = {"form": form, "connection": connection, "back": back}
    return page(
        request, "keep", title=f"How long {connection.display_name} is kept", context=context
    )


def _streams(connection: Connection) -> dict[str, str]:
    """Declared streams by name, and what they are called."""
    current = connection.source.current_declaration_id
    streams = {} if current is None else declared([current])[current].declaration.streams
    stored = kept_for(connection.pk)
    named = {name: stream_label(stream) for name, stream in streams.items()}
    return {name: humanised(name) for name in stored if name and name not in named} | named
