"""Issue, pause, resume and revoke grants.

A request names the owner's choices; issuing resolves them against the current declaration and
freezes the result. This module reads no personal rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from evidence import limits
from evidence.access.crypto import new_id
from evidence.access.grant_terms import StreamRequest as StreamRequest
from evidence.access.grant_terms import resolve_terms, serialize_terms
from evidence.access.scope import StreamTerms
from evidence.errors import ConnectionNotFound, InvalidRequest
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.grants import Grant, Package
from evidence.models.owners import current_owner
from evidence.models.sources import Source, load_declarations

DEFAULT_PURPOSE = "https://pdpp.dev/purpose/personalization"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """A request for streams of one source, through one or more of its connections."""

    connection_ids: Sequence[str]
    streams: Sequence[StreamRequest]
    purpose_code: str = DEFAULT_PURPOSE
    purpose_description: str = ""
    access_mode: str = "continuous"
    retention: Mapping[str, Any] | None = None
    expires_at: datetime | None = None


def lock_packages(**filters: Any) -> None:
    """Lock packages until the transaction ends, so that no one else changes their grants."""
    rows = Package.unscoped.select_for_update(no_key=True).filter(**filters).order_by("pk")
    list(rows.values_list("pk"))


def lock_current_grant(grant_id: str) -> str:
    """Lock the package of a grant and return the id of the grant that superseded it, or its own."""
    lock_packages(pk__in=Grant.unscoped.filter(pk=grant_id).values("package"))
    return current_grant_id(grant_id)


def current_grant_id(grant_id: str) -> str:
    """Return the id of the grant that superseded a grant, or its own."""
    while successor := _successor(grant_id):
        grant_id = successor
    return grant_id


def _successor(grant_id: str) -> str | None:
    return Grant.unscoped.filter(pk=grant_id).values_list("superseded_by", flat=True).first()


def lock_sources(owner_id: str) -> None:
    """Lock the owner's sources until the transaction ends.

    No one else can change their declarations or issue grants from another form meanwhile, so what
    the transaction reads is what it issues.
    """
    rows = Source.unscoped.select_for_update().filter(owner_id=owner_id).order_by("pk")
    list(rows.values_list("pk"))


def register_client(display_name: str, *, owner_id: str, now: datetime) -> Client:
    """Create a client. Raises ``InvalidRequest`` if the name is too long or not printable."""
    name = display_name.strip()
    if not _is_readable(name):
        raise InvalidRequest(
            message=f"The name must have 1 to {limits.LABEL_MAX_CHARS} printable characters.",
            param="client",
        )
    return Client.unscoped.create(
        client_id=new_id("cli_"), owner_id=owner_id, display_name=name, created_at=now
    )


def get_or_create_client(
    client_id: str, *, display_name: str, owner_id: str, now: datetime
) -> Client:
    """Return the client of an OAuth registration, named by its id if its name is not readable."""
    name = display_name.strip()
    client, _ = Client.unscoped.get_or_create(
        client_id=client_id,
        defaults={
            "owner_id": owner_id,
            "display_name": name if _is_readable(name) else client_id[: limits.LABEL_MAX_CHARS],
            "created_at": now,
        },
    )
    return client


def _is_readable(name: str) -> bool:
    return 1 <= len(name) <= limits.LABEL_MAX_CHARS and name.isprintable()


@transaction.atomic
def issue(
    requests: Sequence[GrantRequest], *, client: Client, now: datetime, approval: str | None = None
) -> tuple[Package, list[Grant]]:
    """Issue a package with one grant per request, all or none. An ``approval`` works only once.

    Raises ``ConnectionNotFound``, ``StreamNotDeclared``, ``UnknownField`` or ``InvalidRequest``.
    """
    if not requests:
        raise InvalidRequest(message="A package needs at least one grant.", param="connections")
    package = Package.unscoped.create(
        package_id=new_id("pkg_"),
        owner_id=client.owner_id,
        client=client,
        approval=approval,
        created_at=now,
    )
    granted: set[tuple[str, str]] = set()
    grants = [_create(request, package=package, granted=granted, now=now) for request in requests]
    return package, grants


def find_approved_package(approval: str) -> str | None:
    """Return the id of the package that was issued under an approval."""
    ids = Package.unscoped.filter(approval=approval).values_list("package_id", flat=True)
    return ids.first()


@transaction.atomic
def revoke_grant(grant_id: str, *, now: datetime) -> bool:
    """Revoke a grant, or its current successor. Returns False if none is there to revoke."""
    return _revoke(Grant.unscoped.filter(grant_id=lock_current_grant(grant_id)), now)


def revoke_client(client_id: str, *, now: datetime) -> bool:
    """Revoke every package of a client."""
    return _revoke(Package.unscoped.filter(client_id=client_id), now)


def revoke_package(package_id: str, *, now: datetime) -> bool:
    return _revoke(Package.unscoped.filter(package_id=package_id), now)


def _revoke(rows: QuerySet[Any], now: datetime) -> bool:
    return bool(rows.filter(revoked_at=None).update(revoked_at=now))


@transaction.atomic
def pause_client(client_id: str, *, now: datetime) -> int:
    """Pause every grant of a client until it is resumed. Returns the number of paused grants."""
    lock_packages(client_id=client_id)
    return _current_grants(client_id).filter(paused_at=None).update(paused_at=now)


@transaction.atomic
def resume_client(client_id: str) -> int:
    """Resume every paused grant of a client. Returns the number of resumed grants."""
    lock_packages(client_id=client_id)
    return _current_grants(client_id).exclude(paused_at=None).update(paused_at=None)


def _current_grants(client_id: str) -> QuerySet[Grant]:
    return Grant.unscoped.filter(package__client_id=client_id, revoked_at=None, superseded_by=None)


def _create(
    request: GrantRequest, *, package: Package, granted: set[tuple[str, str]], now: datetime
) -> Grant:
    source, connection_ids = source_of_connections(request.connection_ids, owner_id=current_owner())
    declaration_id = source.current_declaration_id
    if declaration_id is None:
        raise InvalidRequest(message="The source has no declaration.", param="connections")
    streams = load_declarations([declaration_id])[declaration_id].declaration.streams
    terms = [
        resolve_terms(stream, streams=streams, connection_ids=connection_ids)
        for stream in request.streams
    ]
    for term in terms:
        _refuse_duplicate(term, granted)
    time_fields = {name: stream.consent_time_field for name, stream in streams.items()}
    return Grant.unscoped.create(
        grant_id=new_id("grt_"),
        package=package,
        source=source,
        declaration_id=declaration_id,
        streams=serialize_terms(terms, time_fields=time_fields),
        purpose_code=request.purpose_code,
        purpose_description=request.purpose_description,
        access_mode=request.access_mode,
        retention=None if request.retention is None else dict(request.retention),
        issued_at=now,
        expires_at=request.expires_at,
    )


def source_of_connections(
    connection_ids: Sequence[str], *, owner_id: str
) -> tuple[Source, frozenset[str]]:
    """Return the one source of these connections, and their ids.

    Raises ``ConnectionNotFound``, or ``InvalidRequest`` if they belong to several sources.
    """
    requested = frozenset(connection_ids)
    connections = list(
        Connection.unscoped.select_related("source").filter(
            ~Q(status=Connection.Status.REVOKED), owner_id=owner_id, connection_id__in=requested
        )
    )
    missing = requested - {connection.connection_id for connection in connections}
    if missing or not requested:
        names = ", ".join(sorted(missing)) or "none was named"
        raise ConnectionNotFound(message=f"No such connection: {names}.", param="connections")
    sources = {connection.source_id: connection.source for connection in connections}
    if len(sources) > 1:
        raise InvalidRequest(
            message="The connections of a grant must have the same source; issue one grant per source.",
            param="connections",
        )
    return connections[0].source, requested


def _refuse_duplicate(term: StreamTerms, granted: set[tuple[str, str]]) -> None:
    """Refuse a stream of a connection that another grant of the package already covers."""
    pairs = {(connection_id, term.name) for connection_id in term.connection_ids}
    if pairs & granted:
        raise InvalidRequest(
            message=f"The package grants the stream {term.name!r} of a connection twice.",
            param="streams",
        )
    granted |= pairs
