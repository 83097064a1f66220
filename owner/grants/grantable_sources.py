"""What a client requests, and the sources, connections, streams and fields that a request or grant may cover."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any, Literal

from evidence.access.grant_states import connection_ids, terms_of
from evidence.access.grant_text import stream_label
from evidence.access.scope import Only
from evidence.declarations.declaration import SourceDeclaration, StreamDeclaration
from evidence.models.connections import Connection
from evidence.models.grants import Grant
from evidence.models.sources import Source, load_declarations

RegisteredBy = Literal["dynamic", "metadata_document", "owner"]
Resource = Literal["/mcp", "/mcp/events", "/v1"]
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestingClient:
    """The client of a request. `name` and `uri` are its own statements.

    It is `verified` if its metadata document was fetched over https from `host`.
    """

    client_id: str
    name: str
    uri: str | None
    host: str | None
    verified: bool
    registered_by: RegisteredBy


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedStream:
    """One requested stream. None means no restriction; the owner chooses connections left None."""

    name: str
    fields: tuple[str, ...] | None = None
    view: str | None = None
    instance_ids: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedAccess:
    """One ``https://pdpp.dev/data-access`` detail (RFC 9396): streams of one source.

    `source_id` is the source's absolute URI. Without streams, the owner chooses them.
    """

    source_kind: str
    source_id: str
    streams: tuple[RequestedStream, ...]
    purpose_code: str
    purpose_description: str
    access_mode: Literal["continuous", "single_use"]
    retention: Mapping[str, Any] | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """One request for the owner to decide on before `expires_at`.

    Without `details` the owner chooses the sources. `redirect_host` is where the
    decision is sent: a host with its port, or an app's own scheme (`cursor:`); None for a device. `claims` are
    unverified statements of the client by metadata name; pages must show them as such.
    """

    client: RequestingClient
    resource: Resource
    redirect_host: str | None
    details: tuple[RequestedAccess, ...]
    claims: Mapping[str, str]
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBounds:
    """The most of a stream that can be granted; None means no restriction."""

    fields: frozenset[str] | None = None
    resources: frozenset[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    connection_ids: frozenset[str] | None = None


UNBOUNDED = StreamBounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantableSource:
    """One source with its grantable connections, and bounds for each grantable stream.

    `detail` is the request that it answers; `missing` names requested parts that cannot be granted.
    """

    prefix: str
    source: Source
    declaration_pk: int
    declaration: SourceDeclaration
    connections: Sequence[Connection]
    bounds: Mapping[str, StreamBounds]
    detail: RequestedAccess | None = None
    missing: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.source.display_name

    @property
    def is_named_by_connection(self) -> bool:
        """Whether its only connection has the same name."""
        return [each.display_name for each in self.connections] == [self.label]

    @property
    def is_demo(self) -> bool:
        return all(connection.demo for connection in self.connections)


def readable_connections(owner_id: str) -> list[Connection]:
    """Return the connections that are not revoked and whose source is declared."""
    rows = Connection.unscoped.select_related("source").filter(
        owner_id=owner_id, source__current_declaration__isnull=False
    )
    not_revoked = rows.exclude(status=Connection.Status.REVOKED)
    return list(
        not_revoked.order_by("source__display_name", "demo", "display_name", "connection_id")
    )


def all_grantable(connections: Iterable[Connection]) -> list[GrantableSource]:
    """Return the sources of these connections, without restrictions. Demo sources come last."""
    rows = list(connections)
    own = {row.source_id for row in rows if not row.demo}
    ordered = sorted(
        rows, key=lambda row: (row.source_id not in own, row.source.display_name, row.source_id)
    )
    return [
        _grantable(f"s{source.pk}", source, list(group), None)
        for source, group in groupby(ordered, key=lambda row: row.source)
        if source.current_declaration_id is not None
    ]


def requested_grantable(
    details: Sequence[RequestedAccess], *, owner_id: str
) -> tuple[list[GrantableSource], list[str]]:
    """Return a source for each detail, and the ids of sources that the owner does not have."""
    connections = readable_connections(owner_id)
    sources, unknown = [], []
    for number, detail in enumerate(details):
        requested_ids = _requested_connection_ids(detail)
        matching = [
            connection
            for connection in connections
            if connection.source.source_id == detail.source_id
            and (requested_ids is None or connection.pk in requested_ids)
        ]
        if matching:
            sources.append(_grantable(f"d{number}", matching[0].source, matching, detail))
        else:
            unknown.append(detail.source_id)
    return sources, unknown


def narrowable(grant: Grant, *, owner_id: str) -> GrantableSource | None:
    """Return what a grant allows now, or None if nothing of it can be read any more."""
    ids = set(connection_ids(grant))
    connections = [row for row in readable_connections(owner_id) if row.pk in ids]
    if not connections:
        return None
    source = _grantable("g", connections[0].source, connections, None)
    bounds = {
        terms.name: StreamBounds(
            fields=terms.fields.names if isinstance(terms.fields, Only) else None,
            resources=terms.records.names if isinstance(terms.records, Only) else None,
            since=None if terms.time is None else terms.time.since,
            until=None if terms.time is None else terms.time.until,
            connection_ids=terms.connection_ids,
        )
        for terms, _ in terms_of(grant)
        if terms.name in source.declaration.streams
    }
    return replace(source, bounds=bounds)


def _grantable(
    prefix: str, source: Source, connections: Sequence[Connection], detail: RequestedAccess | None
) -> GrantableSource:
    pk = source.current_declaration_id
    if pk is None:
        raise TypeError("a grantable source must be declared")
    declaration = load_declarations([pk])[pk].declaration
    bounds, missing = _requested_bounds(detail, declaration)
    return GrantableSource(
        prefix=prefix,
        source=source,
        declaration_pk=pk,
        declaration=declaration,
        connections=connections,
        bounds=bounds,
        detail=detail,
        missing=tuple(missing),
    )


def _requested_bounds(
    detail: RequestedAccess | None, declaration: SourceDeclaration
) -> tuple[dict[str, StreamBounds], list[str]]:
    if detail is None or not detail.streams:
        return dict.fromkeys(declaration.streams, UNBOUNDED), []
    bounds: dict[str, StreamBounds] = {}
    missing = []
    for requested in detail.streams:
        stream = declaration.streams.get(requested.name)
        if stream is None:
            missing.append(f"“{requested.name}”: this source has no such stream")
        elif reason := _why_not_grantable(requested, stream):
            missing.append(f"{stream_label(stream)}: {reason}")
        else:
            bounds[requested.name] = _bounds_for(requested, stream)
    return bounds, missing


def _why_not_grantable(requested: RequestedStream, stream: StreamDeclaration) -> str:
    """Return why a requested stream cannot be granted, or an empty string."""
    fields = _requested_fields(requested, stream)
    if requested.view is not None and requested.view not in stream.views:
        return f"it has no view “{requested.view}”"
    if fields is not None and fields - set(stream.fields):
        return f"it has no field “{min(fields - set(stream.fields))}”"
    if fields is not None and not stream.selection_fields and fields != set(stream.fields):
        return "some fields were requested, but it can only be shared with all fields"
    if requested.resources is not None and not stream.selection_resources:
        return "single records of it cannot be shared"
    has_time_range = requested.since is not None or requested.until is not None
    if has_time_range and stream.consent_time_field is None:
        return "a time range was requested, but its records have no time"
    return ""


def _requested_fields(
    requested: RequestedStream, stream: StreamDeclaration
) -> frozenset[str] | None:
    view = stream.views.get(requested.view or "")
    if requested.fields is None and view is None:
        return None
    fields = frozenset(requested.fields if requested.fields is not None else stream.fields)
    return fields if view is None else fields & frozenset(view.fields)


def _bounds_for(requested: RequestedStream, stream: StreamDeclaration) -> StreamBounds:
    fields = _requested_fields(requested, stream)
    ids = requested.instance_ids
    return StreamBounds(
        fields=None if fields is None else fields | frozenset(stream.primary_key),
        resources=None if requested.resources is None else frozenset(requested.resources),
        since=requested.since,
        until=requested.until,
        connection_ids=None if ids is None else frozenset(ids),
    )


def _requested_connection_ids(detail: RequestedAccess) -> frozenset[str] | None:
    """Return the connections of all streams, or None if a stream leaves them to the owner."""
    ids_by_stream = [stream.instance_ids for stream in detail.streams]
    if not ids_by_stream or any(ids is None for ids in ids_by_stream):
        return None
    return frozenset(connection_id for ids in ids_by_stream for connection_id in ids or ())
