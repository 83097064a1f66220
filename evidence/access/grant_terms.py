"""The frozen document of a grant <-> ``StreamTerms``.

Reading is strict: a member that is missing or of another shape makes the grant unusable rather
than wider.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import orjson

from evidence.access.scope import Allowed, Everything, FrozenRelation, Only, StreamTerms, TimeRange
from evidence.declarations.declaration import StreamDeclaration
from evidence.errors import InvalidRequest, StreamNotDeclared, UnknownField


@lru_cache(maxsize=1024)
def parsed_terms(grant_id: str, streams: str) -> tuple[StreamTerms, ...]:
    """The terms in the JSON text ``streams``; kept, because a grant never changes."""
    return thawed(streams)


def thawed(streams: str | bytes) -> tuple[StreamTerms, ...]:
    """The same of a grant that is not issued, and may change yet."""
    return tuple(_stream(entry) for entry in orjson.loads(streams))


def _stream(entry: Mapping[str, Any]) -> StreamTerms:
    return StreamTerms(
        name=entry["name"],
        connection_ids=frozenset(entry["instance_ids"]),
        fields=Only(frozenset(entry["fields"])),
        filters=Only(frozenset(entry["filters"]) & frozenset(entry["fields"])),
        views=Only(frozenset(entry["views"])),
        relations=tuple(FrozenRelation(**relation) for relation in entry["relations"]),
        records=_records(entry),
        time=_time(entry.get("time_constraint")),
    )


def _records(entry: Mapping[str, Any]) -> Allowed:
    if "resources" not in entry:
        return Everything()
    return Only(frozenset(entry["resources"]))


def _time(constraint: Mapping[str, str] | None) -> TimeRange | None:
    if constraint is None:
        return None
    return TimeRange(_instant(constraint.get("since")), _instant(constraint.get("until")))


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def frozen(
    terms: Sequence[StreamTerms], *, time_fields: Mapping[str, str | None]
) -> list[dict[str, Any]]:
    """The document that ``parsed_terms`` reads back to equal terms."""
    return [_document(term, time_fields.get(term.name)) for term in terms]


def _document(term: StreamTerms, time_field: str | None) -> dict[str, Any]:
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
        "relations": [
            {
                "name": relation.name,
                "stream": relation.stream,
                "foreign_key": relation.foreign_key,
                "cardinality": relation.cardinality,
                "default_limit": relation.default_limit,
                "max_limit": relation.max_limit,
            }
            for relation in term.relations
        ],
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
    """What the owner allows of one stream. None means all there is, an empty list means nothing.

    ``connection_ids`` are those of the grant that this stream is read through.
    """

    name: str
    connection_ids: Collection[str] | None = None
    fields: Sequence[str] | None = None
    resources: Sequence[str] | None = None
    since: datetime | None = None
    until: datetime | None = None


def resolved(
    request: StreamRequest,
    *,
    streams: Mapping[str, StreamDeclaration],
    connection_ids: frozenset[str],
) -> StreamTerms:
    """What the request comes to under a declaration's ``streams``; never more than they declare.

    Raises ``StreamNotDeclared``, ``UnknownField`` and ``InvalidRequest``, whose ``param`` is
    ``streams``, ``fields``, ``resources``, ``since`` or ``until``.
    """
    stream = streams.get(request.name)
    if stream is None:
        raise StreamNotDeclared(
            message=f"The source declares no stream {request.name!r}; it has: {', '.join(streams)}.",
            param="streams",
        )
    fields = _fields(request, stream)
    return StreamTerms(
        name=stream.name,
        connection_ids=connection_ids
        if request.connection_ids is None
        else connection_ids.intersection(request.connection_ids),
        fields=Only(fields),
        filters=Only(frozenset(name for name in fields if _filterable(stream, name))),
        views=Only(
            frozenset(view.id for view in stream.views.values() if fields.issuperset(view.fields))
        ),
        relations=tuple(_relations(stream)),
        records=Everything() if request.resources is None else Only(_keys(request, stream)),
        time=_resolve_time(request, stream),
    )


def _fields(request: StreamRequest, stream: StreamDeclaration) -> frozenset[str]:
    """The chosen fields, and always those of the primary key: they are the id that is shown."""
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
            message=f"The stream {stream.name!r} is granted with all its fields or not at all.",
            param="fields",
        )
    return frozenset(request.fields) | frozenset(stream.primary_key)


def _keys(request: StreamRequest, stream: StreamDeclaration) -> frozenset[str]:
    if not stream.selection_resources:
        raise InvalidRequest(
            message=f"Single records of the stream {stream.name!r} cannot be granted.",
            param="resources",
        )
    return frozenset(request.resources or ())


def _resolve_time(request: StreamRequest, stream: StreamDeclaration) -> TimeRange | None:
    if request.since is None and request.until is None:
        return None
    if stream.consent_time_field is None:
        raise InvalidRequest(
            message=f"The stream {stream.name!r} has no time to limit it by.", param="since"
        )
    if request.since is not None and request.until is not None and request.since >= request.until:
        raise InvalidRequest(message="The time range ends before it starts.", param="until")
    return TimeRange(request.since, request.until)


def _filterable(stream: StreamDeclaration, name: str) -> bool:
    return stream.fields[name].kind not in ("array", "object", "mixed")


def _relations(stream: StreamDeclaration) -> list[FrozenRelation]:
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
