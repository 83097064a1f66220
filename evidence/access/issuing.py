"""Issuing and ending grants and tokens: the only writer of both.

A request names what the owner chose; issuing resolves it against the current declaration and
freezes the result. Nothing here reads a personal row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from evidence.access.scope import (
    Everything,
    FrozenRelation,
    Only,
    StreamTerms,
    TimeRange,
    TokenKind,
)
from evidence.access.secrets import ACCESS_PREFIX, OWNER_PREFIX, bearer_digest, new_bearer, new_id
from evidence.access.terms import frozen
from evidence.declarations.types import StreamDeclaration
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.declared import declared
from evidence.models.grants import AccessToken, Grant, Package
from evidence.models.sources import Source
from evidence.refusals import (
    ConnectionNotFound,
    InvalidRequest,
    StreamNotDeclared,
    UnknownField,
)

DEFAULT_PURPOSE = "https://pdpp.dev/purpose/personalization"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """What the owner allows of one stream. None means all there is, an empty list means nothing."""

    name: str
    fields: Sequence[str] | None = None
    resources: Sequence[str] | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """Streams of one source through one or more of its connections."""

    connection_ids: Sequence[str]
    streams: Sequence[StreamRequest]
    purpose_code: str = DEFAULT_PURPOSE
    purpose_description: str = ""
    expires_at: datetime | None = None


def register_client(display_name: str, *, owner_id: str, now: datetime) -> Client:
    return Client.unscoped.create(
        client_id=new_id("cli_"), owner_id=owner_id, display_name=display_name, created_at=now
    )


@transaction.atomic
def issue(
    requests: Sequence[GrantRequest], *, client: Client, now: datetime
) -> tuple[Package, list[Grant]]:
    """A package of one grant for each request; all of them or none.

    Raises ``ConnectionNotFound``, ``StreamNotDeclared``, ``UnknownField`` and ``InvalidRequest``.
    """
    if not requests:
        raise InvalidRequest(message="A package needs at least one grant.", param="connections")
    package = Package.unscoped.create(
        package_id=new_id("pkg_"), owner_id=client.owner_id, client=client, created_at=now
    )
    taken: set[tuple[str, str]] = set()
    grants = [_issued(request, package=package, taken=taken, now=now) for request in requests]
    return package, grants


def mint_token(
    package: Package, *, resource: str, now: datetime, expires_at: datetime | None = None
) -> str:
    """A bearer for ``package`` at ``resource`` (``/v1`` or ``/mcp``); shown here and never again."""
    several = Grant.unscoped.filter(package=package).count() > 1
    return _mint(
        ACCESS_PREFIX,
        kind=TokenKind.PACKAGE if several else TokenKind.CLIENT,
        resource=resource,
        owner_id=package.owner_id,
        package=package,
        now=now,
        expires_at=expires_at,
    )


def mint_owner_token(*, owner_id: str, now: datetime, expires_at: datetime | None = None) -> str:
    """A bearer for the owner's own programs; it works at ``/v1`` only."""
    return _mint(
        OWNER_PREFIX,
        kind=TokenKind.OWNER,
        resource="/v1",
        owner_id=owner_id,
        package=None,
        now=now,
        expires_at=expires_at,
    )


def revoke_grant(grant_id: str, *, now: datetime) -> bool:
    """Ends one grant from the next request on; False when it had ended before or is not there."""
    return bool(Grant.unscoped.filter(grant_id=grant_id, revoked_at=None).update(revoked_at=now))


def revoke_package(package_id: str, *, now: datetime) -> bool:
    """Ends all that a client holds in one package."""
    return bool(
        Package.unscoped.filter(package_id=package_id, revoked_at=None).update(revoked_at=now)
    )


def revoke_token(bearer: str, *, now: datetime) -> bool:
    """Ends one bearer; the grants behind it stay."""
    return bool(
        AccessToken.unscoped.filter(digest=bearer_digest(bearer), revoked_at=None).update(
            revoked_at=now
        )
    )


def _mint(
    prefix: str,
    *,
    kind: TokenKind,
    resource: str,
    owner_id: str,
    package: Package | None,
    now: datetime,
    expires_at: datetime | None,
) -> str:
    bearer = new_bearer(prefix)
    AccessToken.unscoped.create(
        token_id=new_id("tok_"),
        digest=bearer_digest(bearer),
        kind=kind,
        resource=resource,
        owner_id=owner_id,
        package=package,
        created_at=now,
        expires_at=expires_at,
    )
    return bearer


def _issued(
    request: GrantRequest, *, package: Package, taken: set[tuple[str, str]], now: datetime
) -> Grant:
    source, connection_ids = _one_source(request.connection_ids, owner_id=package.owner_id)
    if source.current_declaration_id is None:
        raise InvalidRequest(message="The source has no declaration.", param="connections")
    streams = declared([source.current_declaration_id])[
        source.current_declaration_id
    ].declaration.streams
    terms = [_resolved(stream, streams, connection_ids) for stream in request.streams]
    for term in terms:
        _take(term, taken)
    time_fields = {name: stream.consent_time_field for name, stream in streams.items()}
    return Grant.unscoped.create(
        grant_id=new_id("grt_"),
        package=package,
        source=source,
        declaration_id=source.current_declaration_id,
        streams=frozen(terms, time_fields=time_fields),
        purpose_code=request.purpose_code,
        purpose_description=request.purpose_description,
        issued_at=now,
        expires_at=request.expires_at,
    )


def _one_source(connection_ids: Sequence[str], *, owner_id: str) -> tuple[Source, frozenset[str]]:
    wanted = frozenset(connection_ids)
    found = list(
        Connection.unscoped.select_related("source").filter(
            ~Q(status=Connection.Status.REVOKED), owner_id=owner_id, connection_id__in=wanted
        )
    )
    missing = wanted - {connection.connection_id for connection in found}
    if missing or not wanted:
        named = ", ".join(sorted(missing)) or "none was named"
        raise ConnectionNotFound(message=f"No such connection: {named}.", param="connections")
    sources = {connection.source_id: connection.source for connection in found}
    if len(sources) > 1:
        raise InvalidRequest(
            message="The connections of one grant belong to one source; issue one grant for each.",
            param="connections",
        )
    return found[0].source, wanted


def _take(term: StreamTerms, taken: set[tuple[str, str]]) -> None:
    """Within a package a stream of a connection is granted once: two grants would blur both."""
    pairs = {(connection_id, term.name) for connection_id in term.connection_ids}
    if pairs & taken:
        raise InvalidRequest(
            message=f"The stream {term.name!r} of a connection is granted twice in this package.",
            param="streams",
        )
    taken |= pairs


def _resolved(
    request: StreamRequest,
    streams: Mapping[str, StreamDeclaration],
    connection_ids: frozenset[str],
) -> StreamTerms:
    stream = streams.get(request.name)
    if stream is None:
        raise StreamNotDeclared(
            message=f"The source declares no stream {request.name!r}; it has: {', '.join(streams)}.",
            param="streams",
        )
    fields = _fields(request, stream)
    return StreamTerms(
        name=stream.name,
        connection_ids=connection_ids,
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
