"""Who can see a record now, and why; who cannot, and which clause keeps it from them.

The gate itself is asked, with the scope of each grant that stands; the words come from the grant's
own terms. Nothing is disclosed by it: the only reader is the owner.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
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
from evidence.access.grant_text import field_label, join_words
from evidence.access.owner_scope import grant_scope, owner_scope
from evidence.access.records import VisibleRecord
from evidence.access.scope import Only, StreamTerms
from evidence.errors import ApiException
from evidence.models.grants import Grant
from evidence.models.owners import current_owner
from owner.permissions import owner_required
from owner.records.record_summaries import summarize
from owner.records.record_urls import record_url
from owner.site import grant_url, page
from owner.text import describe_terms, escape_invisible, state_badge


@dataclass(frozen=True, slots=True)
class Place:
    connection_id: str
    stream: str
    key: str


@dataclass(frozen=True, slots=True)
class Line:
    """One grant: whether it shows the record, and why."""

    client: str
    url: str
    state: str
    why: str


@owner_required
def who_can_see(request: HttpRequest) -> HttpResponse:
    """Of one record that is there."""
    place = Place(*(request.GET.get(name, "") for name in ("connection", "stream", "key")))
    gate = Gate(owner_scope(current_owner()))
    connection = gate.scope.connections.get(place.connection_id)
    if connection is None or not _named(gate, place):
        raise Http404
    found = [(grant, seen_through(grant, place)) for grant in _standing_grants()]
    labels = connection_labels(current_owner())
    visible = gate.stream(place.stream, connection_id=place.connection_id)
    context = {
        "headings": [each.heading for each in summarize(visible, visible.get(place.key))],
        "key": escape_invisible(place.key),
        "connection": connection.display_name,
        "stream": place.stream,
        "record_url": record_url(place.connection_id, place.stream, place.key),
        "can": [_line(each, _why(each, place, seen, labels)) for each, seen in found if seen],
        "cannot": [
            _line(each, why_not(each, place, source_pk=connection.source_pk))
            for each, seen in found
            if not seen
        ],
    }
    return page(request, "records/who", title="Who can see it", context=context)


def standing_readers(place: Place) -> list[tuple[str, GrantState]]:
    """Return the name and the state of each grant that shows the record."""
    return [
        (grant.package.client.display_name, state_of(grant))
        for grant in _standing_grants()
        if seen_through(grant, place)
    ]


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
    terms = _terms(grant, place)
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


def _terms(grant: Grant, place: Place) -> StreamTerms | None:
    return next((terms for terms, _ in terms_of(grant) if terms.name == place.stream), None)


def _why(grant: Grant, place: Place, seen: VisibleRecord, labels: Mapping[str, str]) -> str:
    said = ((terms, stream) for terms, stream in terms_of(grant) if terms.name == place.stream)
    for terms, stream in said:
        fields = {} if stream is None else stream.fields
        shown = [
            field_label(fields[name], fields) if name in fields else name for name in seen.data
        ]
        sentence = describe_terms(terms, stream=stream, labels=labels).sentence
        return f"It is shown {join_words(shown)}. The grant says: {sentence}"
    return ""


def _line(grant: Grant, why: str) -> Line:
    return Line(
        grant.package.client.display_name,
        grant_url(grant.pk),
        state_badge(state_of(grant)),
        why,
    )
