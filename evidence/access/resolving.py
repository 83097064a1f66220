"""From what the owner chose of a stream to the terms that a grant freezes.

Pure: the declaration comes as a value, so that a form can try a choice before anything is issued.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from evidence.access.scope import Everything, FrozenRelation, Only, StreamTerms, TimeRange
from evidence.declarations.types import StreamDeclaration
from evidence.refusals import InvalidRequest, StreamNotDeclared, UnknownField


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
        time=_time(request, stream),
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


def _time(request: StreamRequest, stream: StreamDeclaration) -> TimeRange | None:
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
