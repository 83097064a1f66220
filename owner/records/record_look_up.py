"""Find a record by connection, stream and key."""

from collections.abc import Mapping

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from evidence.access.gate import Gate
from evidence.access.grant_text import stream_label
from evidence.access.owner_scope import owner_scope
from owner.form_fields import set_choices
from owner.records.record_summaries import record_url, stream_url
from owner.site import owner, page


class LookUpForm(forms.Form):
    where = forms.ChoiceField(label="Connection and stream")
    key = forms.CharField(
        label="Record key",
        required=False,
        strip=False,
        help_text="Leave it empty to see which records there are.",
        widget=forms.TextInput(attrs={"size": 40, "spellcheck": "false"}),
    )

    def __init__(self, data: Mapping[str, str] | None, *, gate: Gate) -> None:
        super().__init__(data)
        set_choices(self, "where", _places(gate))


def look_up(request: HttpRequest) -> HttpResponse:
    """Show a form for a connection, a stream and a key."""
    data = request.GET if "where" in request.GET else None
    form = LookUpForm(data, gate=Gate(owner_scope(owner().pk)))
    if form.is_valid():
        connection_id, _, stream = form.cleaned_data["where"].partition("/")
        return _open(connection_id, stream, form.cleaned_data["key"])
    return page(request, "expert/record_look_up", title="Look up a record", context={"form": form})


def earlier_address(request: HttpRequest) -> HttpResponse:
    """Redirect the addresses that list and record pages had in earlier releases."""
    said = request.GET
    connection_id, stream = said.get("connection") or "-", said.get("stream") or "-"
    return _open(connection_id, stream, said.get("key", ""))


def _open(connection_id: str, stream: str, key: str) -> HttpResponse:
    address = record_url(connection_id, stream, key) if key else stream_url(connection_id, stream)
    return redirect(address)


def _places(gate: Gate) -> list[tuple[str, str]]:
    """Return every stream of every connection, by the name of the connection."""
    places = [
        (f"{facts.connection_id}/{visible.stream.name}", facts.display_name, visible.stream)
        for source in gate.sources
        for visible in source.streams
        for facts in visible.connections
    ]
    places.sort(key=lambda place: (place[1], place[0]))
    return [(value, f"{name}: {stream_label(stream)}") for value, name, stream in places]
