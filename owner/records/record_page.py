"""Show one record as what it is, and which grants show it or why they do not."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.grant_states import (
    GrantState,
    connection_labels,
    filter_state,
    state_of,
    terms_of,
    with_grant_state,
)
from evidence.access.grant_text import field_label, humanize, join_words, stream_label
from evidence.access.owner_scope import grant_scope, owner_scope
from evidence.access.records import VisibleRecord, VisibleRecords, get_record
from evidence.access.scope import Only
from evidence.declarations.declaration import BLOB_REFERENCE, Field
from evidence.errors import ApiException
from evidence.ledger.disclosures import readers_of_record
from evidence.ledger.entries import DisclosedItem
from evidence.models.clients import Client
from evidence.models.grants import Grant
from evidence.models.owners import current_owner
from evidence.read.expansion import Children, load_related, parse_expand
from evidence.write.erasure_orders import ErasureScope
from owner.permissions import CONTENT_SECURITY_POLICY, owner_reads, owner_required
from owner.records.people_directory import link_people, people_in
from owner.records.record_files import is_mail
from owner.records.record_roles import Layout
from owner.records.record_summaries import (
    NOT_BRIEF,
    RecordSummary,
    listed_items,
    record_owner_read,
    record_url,
    stream_url,
    summarize,
)
from owner.site import grant_url, link, page
from owner.text import (
    describe_terms,
    escape_invisible,
    format_time,
    record_values,
    state_badge,
    truncate,
)


@dataclass(frozen=True, slots=True)
class Place:
    connection_id: str
    stream: str
    key: str


@owner_required
def who_can_see(request: HttpRequest) -> HttpResponse:
    """Of one record that is there."""
    place = Place(*(request.GET.get(name, "") for name in ("connection", "stream", "key")))
    gate = Gate(owner_scope(current_owner()))
    connection = gate.scope.connections.get(place.connection_id)
    if connection is None or not _named(gate, place):
        raise Http404
    found = [(grant, seen_through(grant, place)) for grant in _standing_grants()]
    seeing = {grant.package.client_id for grant, seen in found if seen}
    labels = connection_labels(current_owner())
    visible = gate.stream(place.stream, connection_id=place.connection_id)
    context = {
        "headings": [each.heading for each in summarize(visible, visible.get(place.key))],
        "connection": connection.display_name,
        "record_url": record_url(place.connection_id, place.stream, place.key),
        "can": [_line(each, _why(each, place, seen, labels)) for each, seen in found if seen],
        "cannot": [
            _line(each, why_not(each, place, source_pk=connection.source_pk))
            for each, seen in found
            if not seen and each.package.client_id not in seeing
        ],
    }
    return page(request, "records/who", title="Who can see it", context=context)


def _standing_grants() -> list[Grant]:
    rows = with_grant_state(timezone.now())
    rows = rows.order_by("package__client__display_name", "grant_id")
    return [*filter_state(rows, GrantState.ACTIVE), *filter_state(rows, GrantState.PAUSED)]


def seen_through(grant: Grant, place: Place) -> VisibleRecord | None:
    """The record as a token of the grant is shown it, or would be if it were not paused."""
    found = _named(Gate(grant_scope(grant, owner_id=current_owner())), place)
    return found[0] if found else None


def why_not(grant: Grant, place: Place, *, source_pk: int) -> str:
    """The clause that keeps a record which is there from a grant: the first that does."""
    terms = next((terms for terms, _ in terms_of(grant) if terms.name == place.stream), None)
    if grant.source_id != source_pk:
        return f"It reads {grant.source.display_name} only."
    if terms is None:
        return "It does not read this stream."
    if place.connection_id not in terms.connection_ids:
        return "It reads this stream through other connections only."
    if isinstance(terms.records, Only) and place.key not in terms.records.names:
        return f"It reads {len(terms.records.names)} single records only, and this is none of them."
    return "It reads records of a certain time only, and this one is of another, or of none."


def _named(gate: Gate, place: Place) -> list[VisibleRecord]:
    try:
        return gate.stream(place.stream, connection_id=place.connection_id).get(place.key)
    except ApiException:
        return []


def _why(grant: Grant, place: Place, seen: VisibleRecord, labels: Mapping[str, str]) -> str:
    said = ((terms, stream) for terms, stream in terms_of(grant) if terms.name == place.stream)
    for terms, stream in said:
        fields = {} if stream is None else stream.fields
        shown = [
            field_label(fields[name], fields) if name in fields else name for name in seen.data
        ]
        sentence = describe_terms(terms, stream=stream, labels=labels).sentence
        return f"It can read {join_words(shown)}. Its access: {sentence}"
    return ""


def _line(grant: Grant, why: str) -> dict[str, str]:
    """Return one grant: whether it shows the record, and why."""
    return {
        "client": grant.package.client.display_name,
        "url": grant_url(grant.pk),
        "state": state_badge(state_of(grant)),
        "why": why,
    }


MAX_FACT_CHARS = 500
MAX_RELATED = 20
MAX_TEXT_LENGTH = 15_000
MAX_RAW_LENGTH = 3_000
LINE_CHARS = 60
FRAME_LINES = (5, 10, 20, 35, 55)
"""The lines of text that frames of the sizes 1 to 5 are for."""


@owner_reads
def record_page(
    request: HttpRequest, connection_id: str, stream: str, record_key: str
) -> HttpResponse:
    """Show a record; 404 for whatever the owner lacks. `whole` shows long texts to their end."""
    gate = Gate(owner_scope(current_owner()))
    try:
        visible = gate.stream(stream, connection_id=connection_id)
        place = Place(connection_id, stream, record_key)
        readers = _readers(place)
        with transaction.atomic():
            record = get_record(visible, record_key)
            [summary] = summarize(visible, [record])
            related = _related(gate, visible, record)
            shown = [each for _, records, _ in related for each in records]
            item = DisclosedItem(connection_id, stream, record_key, frozenset(record.data))
            record_owner_read(gate.scope, [item, *listed_items(shown)], route="record")
    except ApiException:
        context: dict[str, Any] = {"key": escape_invisible(record_key)}
        return render(request, "owner/records/missing.html", context, status=404)
    link_people([summary])
    context = {
        "people": people_in(summary),
        **_content(summary, whole="whole" in request.GET),
        "related": related,
        "can_see": [
            (grant.package.client.display_name, state_of(grant))
            for grant in _standing_grants()
            if seen_through(grant, place)
        ],
        "have_seen": readers,
        "list_url": stream_url(connection_id, stream),
        **_links(place),
        "is_mail": is_mail(summary),
    }
    response = render(request, "owner/records/record.html", context)
    response["Content-Security-Policy"] = f"{CONTENT_SECURITY_POLICY}; frame-src 'self'"
    return response


def _content(summary: RecordSummary, *, whole: bool) -> dict[str, Any]:
    text, left_out = truncate(
        summary.text, max_length=len(summary.text) if whole else MAX_TEXT_LENGTH
    )
    values = record_values(
        summary.visible, summary.record, max_length=None if whole else MAX_RAW_LENGTH
    )
    return {
        "record": summary,
        "frame_size": _frame_size(summary.text),
        "stream_label": stream_label(summary.visible.stream),
        "text": text,
        "left_out": left_out,
        "facts": facts(summary),
        "values": [each for each in values if not each.is_id],
        "ids": [each for each in values if each.is_id],
        "key": escape_invisible(summary.record.record_key),
        "emitted_at": format_time(summary.record.emitted_at),
    }


def _frame_size(text: str) -> int:
    """Return how large a frame for the HTML of a text is, from 1 to 6: it cannot say so itself."""
    lines = sum(1 + len(line) // LINE_CHARS for line in text.splitlines())
    return 1 + bisect_left(FRAME_LINES, lines) if text else len(FRAME_LINES)


def facts(summary: RecordSummary) -> list[tuple[str, str]]:
    """Return label and text of the declared fields with a short value; ids and what the page shows are left out."""
    roles, stream = summary.roles, summary.visible.stream
    shown = {roles.title, roles.text, roles.html, roles.amount, roles.actor, roles.actor_id,
             stream.event_time_field, BLOB_REFERENCE, *stream.primary_key, roles.thread}  # fmt: skip
    if not roles.is_contact_card:
        shown |= {*roles.addresses, *roles.participants}
    shown |= {roles.measure, roles.unit, roles.currency, *(roles.position or ())}
    shown |= {each.foreign_key for each in stream.relations.values()}
    if roles.layout in (Layout.CALENDAR, Layout.PLACES):
        shown.add(roles.end)
    return [
        (escape_invisible(field_label(field, stream.fields)), text)
        for name, field in stream.fields.items()
        if name not in shown and not name.endswith(("_id", *NOT_BRIEF))
        if (text := _fact_text(summary, field))
    ]


def _fact_text(summary: RecordSummary, field: Field) -> str:
    value = summary.record.data.get(field.name)
    # Flags and sizes of messages are among the stored fields.
    is_message = summary.roles.layout in (Layout.MAILBOX, Layout.CONVERSATION)
    if isinstance(value, bool) or (is_message and isinstance(value, int | float)):
        return ""
    return summary.words(field, MAX_FACT_CHARS)


def _related(
    gate: Gate, visible: VisibleRecords, record: VisibleRecord
) -> list[tuple[str, list[RecordSummary], bool]]:
    """Return label, records and whether there are more of each relation. One query a relation."""
    relations = [each for each in visible.stream.relations.values() if each.expandable]
    limits = [
        ((each.name,), str(min(each.max_limit, MAX_RELATED)))
        for each in relations
        if each.cardinality == "has_many"
    ]
    try:
        names = [each.name for each in relations]
        expansions = parse_expand(gate, visible, names=names, limits=limits)
    except ApiException:
        return []
    groups = []
    for expansion, found in load_related([record], expansions)[0]:
        records = found.records if isinstance(found, Children) else [found] if found else []
        if records:
            label = humanize(expansion.relation.name)
            has_more = isinstance(found, Children) and found.has_more
            groups.append((label, summarize(expansion.child, records), has_more))
    return groups


def _readers(place: Place) -> list[tuple[str, int, str]]:
    """Return who has seen the record before this page, how often and when last, latest first."""
    found = readers_of_record(place.connection_id, place.stream, place.key)
    names = dict(Client.unscoped.values_list("pk", "display_name"))
    return [
        (names.get(client_id, client_id) if client_id else "You", times, format_time(last))
        for client_id, times, last in found
    ]


def _links(place: Place) -> dict[str, str]:
    where = {"connection": place.connection_id, "stream": place.stream, "key": place.key}
    return {
        "who_url": link("who-can-see", **where),
        "seen_url": link("activity", **where),
        "erase_url": link("erase", of=ErasureScope.RECORD.value, **where),
        "export_url": link("record-export", place.connection_id, place.stream, key=place.key),
        "mail_url": link("mail-file", place.connection_id, place.stream, key=place.key),
    }
