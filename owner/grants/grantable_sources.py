"""What can be chosen from: all that the owner has, what a client asks for, or what a grant says now."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from evidence.access.grant_states import connection_ids, terms_of
from evidence.access.grant_text import stream_label
from evidence.access.scope import Only, StreamTerms
from evidence.declarations.declaration import SourceDeclaration, StreamDeclaration
from evidence.models.connections import Connection
from evidence.models.grants import Grant
from evidence.models.sources import Source, declared
from owner.grants.access_request import RequestedAccess, RequestedStream
from owner.grants.stream_form import UNBOUNDED, Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffer:
    """One source: which of its connections and, of each stream, at most what.

    ``detail`` is the request that it answers. ``missing`` says in words what of that request cannot
    be given at all.
    """

    prefix: str
    source: Source
    declaration_pk: int
    declaration: SourceDeclaration
    connections: Sequence[Connection]
    bounds: Mapping[str, Bounds]
    detail: RequestedAccess | None = None
    missing: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.source.display_name


def readable_connections(owner_id: str) -> list[Connection]:
    """Those that can be read: not ended, and of a source that is declared."""
    rows = Connection.unscoped.select_related("source").filter(
        owner_id=owner_id, source__current_declaration__isnull=False
    )
    alive = rows.exclude(status=Connection.Status.REVOKED)
    return list(alive.order_by("source__display_name", "display_name", "connection_id"))


def whole_offers(connections: Iterable[Connection]) -> list[SourceOffer]:
    """Everything of the sources of these connections."""
    ordered = sorted(connections, key=lambda each: (each.source.display_name, each.source_id))
    return [
        _offer(f"s{source.pk}", source, list(group), None)
        for source, group in groupby(ordered, key=lambda each: each.source)
        if source.current_declaration_id is not None
    ]


def asked_offers(
    details: Sequence[RequestedAccess], *, owner_id: str
) -> tuple[list[SourceOffer], list[str]]:
    """An offer for each detail, and the ids of sources that the owner does not have."""
    connections = readable_connections(owner_id)
    found, unknown = [], []
    for number, detail in enumerate(details):
        mine = [each for each in connections if each.source.source_id == detail.source_id]
        wanted = _named_connections(detail)
        offered = [each for each in mine if wanted is None or each.pk in wanted]
        if offered:
            found.append(_offer(f"d{number}", offered[0].source, offered, detail))
        else:
            unknown.append(detail.source_id)
    return found, unknown


def narrowing_offer(grant: Grant, *, owner_id: str) -> SourceOffer | None:
    """At most what a grant says now; None where nothing of it is left to be read."""
    ids = set(connection_ids(grant))
    left = [each for each in readable_connections(owner_id) if each.pk in ids]
    if not left:
        return None
    offer = _offer("g", left[0].source, left, None)
    held = {terms.name: _bounds_of(terms) for terms, _ in terms_of(grant)}
    still = {name: bounds for name, bounds in held.items() if name in offer.declaration.streams}
    return SourceOffer(
        prefix=offer.prefix,
        source=offer.source,
        declaration_pk=offer.declaration_pk,
        declaration=offer.declaration,
        connections=left,
        bounds=still,
    )


def _offer(
    prefix: str,
    source: Source,
    connections: Sequence[Connection],
    detail: RequestedAccess | None,
) -> SourceOffer:
    pk = source.current_declaration_id
    if pk is None:
        raise TypeError("an offer needs a declared source")
    declaration = declared([pk])[pk].declaration
    bounds, missing = _asked_bounds(detail, declaration)
    return SourceOffer(
        prefix=prefix,
        source=source,
        declaration_pk=pk,
        declaration=declaration,
        connections=connections,
        bounds=bounds,
        detail=detail,
        missing=tuple(missing),
    )


def _asked_bounds(
    detail: RequestedAccess | None, declaration: SourceDeclaration
) -> tuple[dict[str, Bounds], list[str]]:
    if detail is None or not detail.streams:
        return dict.fromkeys(declaration.streams, UNBOUNDED), []
    bounds: dict[str, Bounds] = {}
    missing = []
    for asked in detail.streams:
        stream = declaration.streams.get(asked.name)
        if stream is None:
            missing.append(f"“{asked.name}”, which this source does not have")
        elif reason := _not_to_be_given(asked, stream):
            missing.append(f"{stream_label(stream)}: {reason}")
        else:
            bounds[asked.name] = _bounds_asked(asked, stream)
    return bounds, missing


def _not_to_be_given(asked: RequestedStream, stream: StreamDeclaration) -> str:
    fields = _fields_asked(asked, stream)
    if asked.view is not None and asked.view not in stream.views:
        return f"it has no view “{asked.view}”"
    if fields is not None and fields - set(stream.fields):
        return f"it has no field “{min(fields - set(stream.fields))}”"
    if fields is not None and not stream.selection_fields and fields != set(stream.fields):
        return "only some fields were asked for, but it is given with all of them or not at all"
    if asked.resources is not None and not stream.selection_resources:
        return "single records of it cannot be given"
    limited = asked.since is not None or asked.until is not None
    if limited and stream.consent_time_field is None:
        return "a time range was asked for, but its records have no time"
    return ""


def _fields_asked(asked: RequestedStream, stream: StreamDeclaration) -> frozenset[str] | None:
    view = stream.views.get(asked.view or "")
    if asked.fields is None and view is None:
        return None
    named = frozenset(asked.fields if asked.fields is not None else stream.fields)
    return named if view is None else named & frozenset(view.fields)


def _bounds_asked(asked: RequestedStream, stream: StreamDeclaration) -> Bounds:
    fields = _fields_asked(asked, stream)
    return Bounds(
        fields=None if fields is None else fields | frozenset(stream.primary_key),
        resources=None if asked.resources is None else frozenset(asked.resources),
        since=asked.since,
        until=asked.until,
        connection_ids=None if asked.instance_ids is None else frozenset(asked.instance_ids),
    )


def _bounds_of(terms: StreamTerms) -> Bounds:
    return Bounds(
        fields=terms.fields.names if isinstance(terms.fields, Only) else None,
        resources=terms.records.names if isinstance(terms.records, Only) else None,
        since=None if terms.time is None else terms.time.since,
        until=None if terms.time is None else terms.time.until,
        connection_ids=terms.connection_ids,
    )


def _named_connections(detail: RequestedAccess) -> frozenset[str] | None:
    """The connections that any stream names; None where one leaves them to the owner."""
    named = [stream.instance_ids for stream in detail.streams]
    if not named or any(ids is None for ids in named):
        return None
    return frozenset(each for ids in named for each in ids or ())
