"""What a connection holds, stream by stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from evidence.access.grant_text import humanize, stream_label
from evidence.declarations.declaration import StreamDeclaration
from evidence.models.connections import Connection, StreamState
from evidence.models.sources import load_declarations
from evidence.write.erasure_orders import ErasureScope
from evidence.write.retention import MAX_DAYS, retention_periods, set_retention
from owner.permissions import owner_required
from owner.records import erasure_pages
from owner.records.record_urls import stream_url
from owner.site import page
from owner.text import format_time, pluralize


@dataclass(frozen=True, slots=True)
class StreamLine:
    label: str
    detail: str
    holds: str
    latest: str
    url: str
    erase_url: str


def stream_lines(connection: Connection) -> list[StreamLine]:
    """Every declared stream, and any that is stored though nothing declares it any more.

    ``url`` is empty where there is nothing to look at, ``erase_url`` where nothing was ever stored.
    """
    states = {
        state.stream: state
        for state in StreamState.unscoped.filter(connection=connection).order_by("stream")
    }
    streams = _declared(connection)
    is_shown = connection.status != Connection.Status.REVOKED
    lines = []
    for name in [*streams, *(name for name in states if name not in streams)]:
        stream, state = streams.get(name), states.get(name)
        where = {"connection_id": connection.pk, "stream": name}
        lines.append(StreamLine(
            label=humanize(name) if stream is None else stream_label(stream),
            detail="no longer declared" if stream is None
            else stream.detail or stream.description or "",
            holds=pluralize(0 if state is None else state.record_count, "record"),
            latest=format_time(None if state is None else state.latest_emitted_at, never=""),
            url=stream_url(connection.pk, name) if is_shown and stream is not None else "",
            erase_url="" if state is None else erasure_pages.url(ErasureScope.STREAM, **where),
        ))  # fmt: skip
    return lines


def _declared(connection: Connection) -> dict[str, StreamDeclaration]:
    current = connection.source.current_declaration_id
    return (
        {} if current is None else dict(load_declarations([current])[current].declaration.streams)
    )


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
                max_value=MAX_DAYS,
                initial=kept.get(name),
                help_text="days; empty: for good" if name == ALL else "",
            )

    @property
    def days(self) -> dict[str, int | None]:
        """stream -> days, once the form holds."""
        said = self.cleaned_data
        return {name: said[f"days_{number}"] for number, name in enumerate(self.streams)}


def url(connection_id: str) -> str:
    return f"{reverse('retention')}?connection={connection_id}"


@owner_required
def keep(request: HttpRequest) -> HttpResponse:
    """Shows the periods, and sets them."""
    connection_id = request.GET.get("connection", "").replace("\0", "")
    connection = Connection.unscoped.filter(pk=connection_id).first()
    if connection is None:
        raise Http404
    data = request.POST if request.method == "POST" else None
    form = KeepForm(data, streams=_streams(connection), kept=retention_periods(connection.pk))
    back = reverse("connection", args=[connection.pk])
    if data is not None and form.is_valid():
        for stream, days in form.days.items():
            set_retention(connection.pk, stream=stream, days=days, now=timezone.now())
        messages.success(request, "What is older is erased within the hour, and every hour after.")
        return redirect(back)
    context = {"form": form, "connection": connection, "back": back}
    return page(
        request,
        "records/keep",
        title=f"How long {connection.display_name} is kept",
        context=context,
    )


def _streams(connection: Connection) -> dict[str, str]:
    """Declared streams by name, and what they are called."""
    stored = retention_periods(connection.pk)
    named = {name: stream_label(stream) for name, stream in _declared(connection).items()}
    return {name: humanize(name) for name in stored if name and name not in named} | named
