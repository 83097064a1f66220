"""Records, to look at: through the gate like every reader, as plain text, and never to edit."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from django import forms
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from evidence.access.cursors import decode_cursor, encode_cursor
from evidence.access.gate import Gate
from evidence.access.grant_text import stream_label
from evidence.access.owner_scope import owner_scope
from evidence.access.records import Keyset, VisibleRecord, VisibleRecords
from evidence.access.scope import Scope
from evidence.errors import ApiException
from evidence.ledger.entries import DisclosedItem
from evidence.reading import records as reading
from evidence.storing.erasure_orders import ErasureScope
from owner.form_fields import set_choices
from owner.records import erasure_pages
from owner.records.connection_streams import list_url
from owner.records.owner_reads import record_owner_read
from owner.site import owner, page
from owner.text import (
    MAX_VALUE_LENGTH,
    escape_invisible,
    format_time,
    one_line,
    record_title,
    record_values,
)


def note(
    scope: Scope,
    visible: VisibleRecords,
    records: Iterable[VisibleRecord],
    *,
    route: str,
    fields: Iterable[str] | None = None,
) -> None:
    """Inside the transaction of the read. ``fields`` where a page shows only some of them."""
    only = None if fields is None else frozenset(fields)
    shown = [
        DisclosedItem(
            each.connection.connection_id,
            visible.stream.name,
            each.record_key,
            frozenset(each.data) if only is None else only & frozenset(each.data),
        )
        for each in records
    ]
    record_owner_read(scope, shown, route=route)


A_PAGE = 50
KIND = "admin.records"


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
    """A form for a connection, a stream and a key."""
    form = LookUpForm(request.GET if "where" in request.GET else None, gate=owners_gate())
    if not form.is_valid():
        return page(request, "record_look_up", title="Look up a record", context={"form": form})
    connection_id, _, stream = form.cleaned_data["where"].partition("/")
    key = form.cleaned_data["key"]
    if not key:
        return redirect(list_url(connection_id, stream))
    return redirect(_url(connection_id, stream, key))


def key_list(request: HttpRequest) -> HttpResponse:
    """The records of one stream of one connection, newest first, by key."""
    gate = owners_gate()
    visible = _visible(request, gate)
    query = _place(visible)
    after = request.GET.get("after")
    try:
        place = decode_cursor(after, KIND, scope=gate.scope, query=query) if after else None
    except ApiException:
        return redirect(list_url(query["connection"], query["stream"]))
    with transaction.atomic():
        found = reading.page(
            visible,
            limit=A_PAGE,
            descending=True,
            after=None if place is None else Keyset(**place),
            where=(),
        )
        listed = [visible.stream.title_field or "", visible.stream.event_time_field or ""]
        note(gate.scope, visible, found.records, route="records", fields=listed)
    next_url = ""
    if found.has_more:
        last = found.records[-1].position
        place = {
            "sort_key": last.sort_key,
            "record_key": last.record_key,
            "connection_id": last.connection_id,
        }
        sealed = encode_cursor(KIND, scope=gate.scope, query=query, place=place)
        next_url = (
            f"{list_url(query['connection'], query['stream'])}&{urlencode({'after': sealed})}"
        )
    context = {
        **_heading(visible),
        "records": [_listed(visible, record) for record in found.records],
        "next_url": next_url,
        "is_first": after is None,
    }
    return page(request, "record_list", title=stream_label(visible.stream), context=context)


def one(request: HttpRequest) -> HttpResponse:
    """Every field of one record."""
    gate = owners_gate()
    visible = _visible(request, gate)
    key = request.GET.get("key", "")
    try:
        record = looked_at(gate, visible, key)
    except ApiException:
        context = {**_heading(visible), "key": escape_invisible(key)}
        return page(request, "record_missing", title="No such record", context=context, status=404)
    context = {
        **_heading(visible),
        "record": record,
        "key": escape_invisible(record.record_key),
        "emitted_at": format_time(record.emitted_at),
        "values": record_values(
            visible, record, max_length=None if "whole" in request.GET else MAX_VALUE_LENGTH
        ),
        "whole_url": f"{_url_of(visible, record)}&whole=1",
        "seen_url": _about(visible, record, view="activity"),
        "who_url": _about(visible, record, view="admin:evidence_record_who"),
        "erase_url": erasure_pages.url(
            ErasureScope.RECORD,
            connection_id=record.connection.connection_id,
            stream=visible.stream.name,
            key=record.record_key,
        ),
    }
    return page(request, "record", title=record_title(visible, record), context=context)


def looked_at(gate: Gate, visible: VisibleRecords, key: str) -> VisibleRecord:
    """One record, shown whole to the owner and written down. Raises what the reading raises."""
    with transaction.atomic():
        record = reading.get(visible, key)
        note(gate.scope, visible, [record], route="record")
    return record


def _about(visible: VisibleRecords, record: VisibleRecord, *, view: str) -> str:
    query = urlencode(
        {
            "connection": record.connection.connection_id,
            "stream": visible.stream.name,
            "key": record.record_key,
        }
    )
    return f"{reverse(view)}?{query}"


def owners_gate() -> Gate:
    return Gate(owner_scope(owner().pk))


def _visible(request: HttpRequest, gate: Gate) -> VisibleRecords:
    connection_id, stream = request.GET.get("connection", ""), request.GET.get("stream", "")
    try:
        return gate.stream(stream, connection_id=connection_id)
    except ApiException as refusal:
        raise Http404(refusal.message) from refusal


def _place(visible: VisibleRecords) -> dict[str, str]:
    (facts,) = visible.connections
    return {"connection": facts.connection_id, "stream": visible.stream.name}


def _heading(visible: VisibleRecords) -> dict[str, object]:
    (facts,) = visible.connections
    return {
        "connection": facts,
        "stream_label": stream_label(visible.stream),
        "list_url": list_url(facts.connection_id, visible.stream.name),
    }


def _places(gate: Gate) -> list[tuple[str, str]]:
    """Every stream of every connection, by the name of the connection."""
    places = [
        (f"{facts.connection_id}/{visible.stream.name}", facts.display_name, visible.stream)
        for source in gate.sources
        for visible in source.streams
        for facts in visible.connections
    ]
    places.sort(key=lambda place: (place[1], place[0]))
    return [(value, f"{name}: {stream_label(stream)}") for value, name, stream in places]


def _listed(visible: VisibleRecords, record: VisibleRecord) -> dict[str, str]:
    return {
        "key": escape_invisible(record.record_key),
        "title": record_title(visible, record),
        "time": one_line(record.data.get(visible.stream.event_time_field or "") or ""),
        "url": _url_of(visible, record),
    }


def _url_of(visible: VisibleRecords, record: VisibleRecord) -> str:
    return _url(record.connection.connection_id, visible.stream.name, record.record_key)


def _url(connection_id: str, stream: str, key: str) -> str:
    query = urlencode({"connection": connection_id, "stream": stream, "key": key})
    return f"{reverse('admin:evidence_record')}?{query}"
