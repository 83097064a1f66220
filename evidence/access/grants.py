"""Issuing and ending grants and tokens: the only writer of both.

A request names what the owner chose; issuing resolves it against the current declaration and
freezes the result. Nothing here reads a personal row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from evidence import limits
from evidence.access.crypto import (
    ACCESS_PREFIX,
    OWNER_PREFIX,
    bearer_digest,
    bearer_digests,
    new_bearer,
    new_id,
)
from evidence.access.grant_terms import StreamRequest as StreamRequest
from evidence.access.grant_terms import frozen, resolved
from evidence.access.scope import StreamTerms, TokenKind
from evidence.errors import ConnectionNotFound, InvalidRequest
from evidence.models.accounts import Client
from evidence.models.connections import Connection
from evidence.models.grants import AccessToken, Grant, Package
from evidence.models.sources import Source, declared


def hold_packages(**which: Any) -> None:
    """Until the end of the transaction nobody else changes or replaces a grant of these packages."""
    rows = Package.unscoped.select_for_update(no_key=True).filter(**which).order_by("pk")
    list(rows.values_list("pk"))


def hold_latest(grant_id: str) -> str:
    """The id of what the grant has become, held like ``hold_packages``; its own where it stands."""
    hold_packages(pk__in=Grant.unscoped.filter(pk=grant_id).values("package"))
    while after := _successor(grant_id):
        grant_id = after
    return grant_id


def _successor(grant_id: str) -> str | None:
    found = Grant.unscoped.filter(pk=grant_id).values_list("superseded_by", flat=True)
    return found.first()


DEFAULT_PURPOSE = "https://pdpp.dev/purpose/personalization"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """Streams of one source through one or more of its connections."""

    connection_ids: Sequence[str]
    streams: Sequence[StreamRequest]
    purpose_code: str = DEFAULT_PURPOSE
    purpose_description: str = ""
    access_mode: str = "continuous"
    retention: Mapping[str, Any] | None = None
    expires_at: datetime | None = None


def register_client(display_name: str, *, owner_id: str, now: datetime) -> Client:
    """A new client of that name. Raises ``InvalidRequest`` for a name that nobody could read."""
    name = display_name.strip()
    if not 1 <= len(name) <= limits.LABEL_MAX_CHARS or not name.isprintable():
        raise InvalidRequest(
            message=f"A name has 1 to {limits.LABEL_MAX_CHARS} printable characters.",
            param="client",
        )
    return Client.unscoped.create(
        client_id=new_id("cli_"), owner_id=owner_id, display_name=name, created_at=now
    )


def holder(client_id: str, *, display_name: str, owner_id: str, now: datetime) -> Client:
    """The client of that id, which another part of the server has registered; made when first held.

    A name that nobody could read gives way to the id.
    """
    name = display_name.strip()
    readable = 1 <= len(name) <= limits.LABEL_MAX_CHARS and name.isprintable()
    client, _ = Client.unscoped.get_or_create(
        client_id=client_id,
        defaults={
            "owner_id": owner_id,
            "display_name": name if readable else client_id[: limits.LABEL_MAX_CHARS],
            "created_at": now,
        },
    )
    return client


@transaction.atomic
def issue(
    requests: Sequence[GrantRequest], *, client: Client, now: datetime, approval: str | None = None
) -> tuple[Package, list[Grant]]:
    """A package of one grant for each request; all of them or none. An ``approval`` holds once.

    Raises ``ConnectionNotFound``, ``StreamNotDeclared``, ``UnknownField`` and ``InvalidRequest``.
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
    taken: set[tuple[str, str]] = set()
    grants = [_issued(request, package=package, taken=taken, now=now) for request in requests]
    return package, grants


def approved_before(approval: str) -> str | None:
    """The id of the package that was issued under this approval."""
    ids = Package.unscoped.filter(approval=approval).values_list("package_id", flat=True)
    return ids.first()


def hold_sources(owner_id: str) -> None:
    """Until the end of the transaction nobody declares a source anew or issues what they show from
    another form: what is read of them from here on is what is issued."""
    rows = Source.unscoped.select_for_update().filter(owner_id=owner_id).order_by("pk")
    list(rows.values_list("pk"))


def mint_token(
    package: Package, *, resource: str, now: datetime, expires_at: datetime | None = None
) -> str:
    """A bearer for ``package`` at ``resource`` (``/v1``, ``/mcp`` or ``/mcp/events``); shown here and never again."""
    bearer = new_bearer(ACCESS_PREFIX)
    keep_token(bearer, package=package, resource=resource, now=now, expires_at=expires_at)
    return bearer


def keep_token(
    bearer: str, *, package: Package, resource: str, now: datetime, expires_at: datetime | None
) -> AccessToken:
    """The row of a bearer that the caller has made, of 256 random bits, and hands out."""
    several = Grant.unscoped.filter(package=package).count() > 1
    return _keep(
        bearer,
        kind=TokenKind.PACKAGE if several else TokenKind.CLIENT,
        resource=resource,
        owner_id=package.owner_id,
        package=package,
        now=now,
        expires_at=expires_at,
    )


def mint_owner_token(*, owner_id: str, now: datetime, expires_at: datetime | None = None) -> str:
    """A bearer for the owner's own programs; it works at ``/v1`` only."""
    bearer = new_bearer(OWNER_PREFIX)
    _keep(
        bearer,
        kind=TokenKind.OWNER,
        resource="/v1",
        owner_id=owner_id,
        package=None,
        now=now,
        expires_at=expires_at,
    )
    return bearer


@transaction.atomic
def revoke_grant(grant_id: str, *, now: datetime) -> bool:
    """Ends one grant, or what it has become, from the next request on; False when it had ended before
    or is not there."""
    return _end(Grant.unscoped.filter(grant_id=hold_latest(grant_id)), now)


@transaction.atomic
def pause_client(client_id: str, *, now: datetime) -> int:
    """Nothing is read through any grant of the client until it is resumed; how many are paused."""
    hold_packages(client_id=client_id)
    return _standing(client_id).filter(paused_at=None).update(paused_at=now)


@transaction.atomic
def resume_client(client_id: str) -> int:
    """Ends every pause of the client."""
    hold_packages(client_id=client_id)
    return _standing(client_id).exclude(paused_at=None).update(paused_at=None)


def revoke_client(client_id: str, *, now: datetime) -> bool:
    """Ends all that a client holds, in every package."""
    return _end(Package.unscoped.filter(client_id=client_id), now)


def _standing(client_id: str) -> QuerySet[Grant]:
    return Grant.unscoped.filter(package__client_id=client_id, revoked_at=None, superseded_by=None)


def revoke_package(package_id: str, *, now: datetime) -> bool:
    """Ends all that a client holds in one package."""
    return _end(Package.unscoped.filter(package_id=package_id), now)


def revoke_token(bearer: str, *, now: datetime) -> bool:
    """Ends one bearer; the grants behind it stay."""
    return _end(AccessToken.unscoped.filter(digest__in=bearer_digests(bearer)), now)


def revoke_token_id(token_id: str, *, now: datetime) -> bool:
    """Ends one bearer that is known by its id only."""
    return _end(AccessToken.unscoped.filter(token_id=token_id), now)


def _end(rows: QuerySet[Any], now: datetime) -> bool:
    return bool(rows.filter(revoked_at=None).update(revoked_at=now))


def _keep(
    bearer: str,
    *,
    kind: TokenKind,
    resource: str,
    owner_id: str,
    package: Package | None,
    now: datetime,
    expires_at: datetime | None,
) -> AccessToken:
    return AccessToken.unscoped.create(
        token_id=new_id("tok_"),
        digest=bearer_digest(bearer),
        kind=kind,
        resource=resource,
        owner_id=owner_id,
        package=package,
        created_at=now,
        expires_at=expires_at,
    )


def _issued(
    request: GrantRequest, *, package: Package, taken: set[tuple[str, str]], now: datetime
) -> Grant:
    source, connection_ids = one_source(request.connection_ids, owner_id=package.owner_id)
    if source.current_declaration_id is None:
        raise InvalidRequest(message="The source has no declaration.", param="connections")
    streams = declared([source.current_declaration_id])[
        source.current_declaration_id
    ].declaration.streams
    terms = [
        resolved(stream, streams=streams, connection_ids=connection_ids)
        for stream in request.streams
    ]
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
        access_mode=request.access_mode,
        retention=None if request.retention is None else dict(request.retention),
        issued_at=now,
        expires_at=request.expires_at,
    )


def one_source(connection_ids: Sequence[str], *, owner_id: str) -> tuple[Source, frozenset[str]]:
    """The source of these connections and their ids; raises where there is not exactly one."""
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
