"""Resolve the owner's choices into frozen grant terms, and parse stored terms.

Parsing is strict: a missing or malformed member makes the grant unusable, never wider.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson

from evidence.access.scope import Allowed, Everything, FrozenRelation, Only, StreamTerms, TimeRange
from evidence.declarations.declaration import StreamDeclaration, is_comparable
from evidence.errors import InvalidRequest, StreamNotDeclared, UnknownField


@lru_cache(maxsize=1024)
def parse_terms(streams: str) -> tuple[StreamTerms, ...]:
    """Parse the JSON terms of an issued grant. Cached, because every request needs them."""
    return parse_draft_terms(streams)


def parse_draft_terms(streams: str | bytes) -> tuple[StreamTerms, ...]:
    """Parse the JSON terms of a grant that is not issued yet, without caching."""
    return tuple(_parse_stream(document) for document in orjson.loads(streams))


def _parse_stream(document: Mapping[str, Any]) -> StreamTerms:
    return StreamTerms(
        name=document["name"],
        connection_ids=frozenset(document["instance_ids"]),
        fields=Only(frozenset(document["fields"])),
        filters=Only(frozenset(document["filters"]) & frozenset(document["fields"])),
        views=Only(frozenset(document["views"])),
        relations=tuple(FrozenRelation(**relation) for relation in document["relations"]),
        records=_parse_records(document),
        time=_parse_time(document.get("time_constraint")),
    )


def _parse_records(document: Mapping[str, Any]) -> Allowed:
    if "resources" not in document:
        return Everything()
    return Only(frozenset(document["resources"]))


def _parse_time(constraint: Mapping[str, str] | None) -> TimeRange | None:
    if constraint is None:
        return None
    return TimeRange(
        _parse_instant(constraint.get("since")), _parse_instant(constraint.get("until"))
    )


def _parse_instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def serialize_terms(
    terms: Sequence[StreamTerms], *, time_fields: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """Return the document to store, which ``parse_terms`` parses to equal terms."""
    return [_serialize_stream(term, time_fields.get(term.name)) for term in terms]


def _serialize_stream(term: StreamTerms, time_field: str | None) -> dict[str, Any]:
    if not isinstance(term.fields, Only) or not isinstance(term.filters, Only):
        raise TypeError("a grant names its fields")
    if not isinstance(term.views, Only) or isinstance(term.relations, Everything):
        raise TypeError("a grant names its views and relations")
    document: dict[str, Any] = {
        "name": term.name,
        "instance_ids": sorted(term.connection_ids),
        "fields": sorted(term.fields.names),
        "filters": sorted(term.filters.names),
        "views": sorted(term.views.names),
        "relations": [asdict(relation) for relation in term.relations],
    }
    if isinstance(term.records, Only):
        document["resources"] = sorted(term.records.names)
    if term.time is not None:
        document["time_constraint"] = {"field": time_field} | {
            name: bound.isoformat()
            for name, bound in (("since", term.time.since), ("until", term.time.until))
            if bound is not None
        }
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """The owner's choices for one stream. None means everything, an empty list means nothing.

    ``connection_ids`` limits the stream to some connections of the grant.
    """

    name: str
    connection_ids: Collection[str] | None = None
    fields: Sequence[str] | None = None
    resources: Sequence[str] | None = None
    since: datetime | None = None
    until: datetime | None = None


def resolve_terms(
    request: StreamRequest,
    *,
    streams: Mapping[str, StreamDeclaration],
    connection_ids: frozenset[str],
) -> StreamTerms:
    """Return the terms of a request under the declared ``streams``, never more than they declare.

    Raises ``StreamNotDeclared``, ``UnknownField`` or ``InvalidRequest``, whose ``param`` is
    ``streams``, ``fields``, ``resources``, ``since`` or ``until``.
    """
    stream = streams.get(request.name)
    if stream is None:
        raise StreamNotDeclared(
            message=f"The source declares no stream {request.name!r}; it has: {', '.join(streams)}.",
            param="streams",
        )
    fields = _resolve_fields(request, stream)
    return StreamTerms(
        name=stream.name,
        connection_ids=connection_ids
        if request.connection_ids is None
        else connection_ids.intersection(request.connection_ids),
        fields=Only(fields),
        filters=Only(frozenset(name for name in fields if _is_filterable(stream, name))),
        views=Only(
            frozenset(view.id for view in stream.views.values() if fields.issuperset(view.fields))
        ),
        relations=tuple(_expandable_relations(stream)),
        records=Everything() if request.resources is None else Only(_resolve_keys(request, stream)),
        time=_resolve_time(request, stream),
    )


def _resolve_fields(request: StreamRequest, stream: StreamDeclaration) -> frozenset[str]:
    """Return the chosen fields and the primary key, because every record shows its id."""
    if request.fields is None:
        return frozenset(stream.fields)
    unknown = [name for name in request.fields if name not in stream.fields]
    if unknown:
        raise UnknownField(
            message=f"The stream {stream.name!r} declares no field {unknown[0]!r}; "
            f"it has: {', '.join(stream.fields)}.",
            param="fields",
        )
    if not stream.selection_fields and set(request.fields) != set(stream.fields):
        raise InvalidRequest(
            message=f"The stream {stream.name!r} does not allow choosing fields; grant all of them.",
            param="fields",
        )
    return frozenset(request.fields) | frozenset(stream.primary_key)


def _resolve_keys(request: StreamRequest, stream: StreamDeclaration) -> frozenset[str]:
    if not stream.selection_resources:
        raise InvalidRequest(
            message=f"The stream {stream.name!r} does not allow granting single records.",
            param="resources",
        )
    return frozenset(request.resources or ())


def _resolve_time(request: StreamRequest, stream: StreamDeclaration) -> TimeRange | None:
    if request.since is None and request.until is None:
        return None
    if stream.consent_time_field is None:
        raise InvalidRequest(
            message=f"The stream {stream.name!r} has no time field, so remove the time range.",
            param="since",
        )
    if request.since is not None and request.until is not None and request.since >= request.until:
        raise InvalidRequest(message="The time range ends before it starts.", param="until")
    return TimeRange(request.since, request.until)


def _is_filterable(stream: StreamDeclaration, name: str) -> bool:
    field = stream.fields[name]
    return field.kind != "mixed" and is_comparable(stream, field)


def _expandable_relations(stream: StreamDeclaration) -> list[FrozenRelation]:
    return [
        FrozenRelation(
            name=relation.name,
            stream=relation.stream,
            foreign_key=relation.foreign_key,
            cardinality=relation.cardinality,
            default_limit=relation.default_limit,
            max_limit=relation.max_limit,
        )
        for relation in stream.relations.values()
        if relation.expandable
    ]
