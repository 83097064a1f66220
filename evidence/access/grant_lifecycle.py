"""Narrow grants, close single-use grants, and suspend or delete all access.

Narrowing issues a successor in the same package, never wider than the grant that it supersedes. Tokens
stay valid, because they belong to the package. Whatever is bound to the old grant, such as a bookmark
of the changes feed or a temporary grant, becomes invalid (design, section 4).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from evidence.access.crypto import new_id
from evidence.access.grant_states import (
    GrantState,
    connection_ids,
    filter_state,
    state_of,
    terms_of,
    with_grant_state,
)
from evidence.access.grant_terms import StreamRequest, resolve_terms, serialize_terms
from evidence.access.grants import lock_packages, revoke_grant, source_of_connections
from evidence.access.quotas import lock_quotas, transfer_quotas
from evidence.access.scope import (
    Allowed,
    Everything,
    Only,
    Scope,
    StreamTerms,
    TimeRange,
    TokenKind,
)
from evidence.access.sql import SQL, fetch_prepared
from evidence.declarations.declaration import StreamDeclaration
from evidence.errors import GrantConsumed, GrantRevoked, InvalidRequest
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.events import Bookmark
from evidence.models.grants import AccessToken, Collector, Grant, Package
from evidence.models.quotas import Quota, RefusedCall
from evidence.models.sources import load_declarations


@transaction.atomic
def narrow_grant(
    grant_id: str,
    streams: Sequence[StreamRequest],
    *,
    connection_ids: Sequence[str],
    expires_at: datetime | None,
    now: datetime,
) -> Grant:
    """Replace a grant with a narrower successor and return it.

    It expires with the old grant, or at ``expires_at`` if that is sooner. Raises ``GrantRevoked`` if the
    old grant is neither active nor paused, ``InvalidRequest`` for anything wider, or like ``issue``.
    """
    old, limits = lock_grant(grant_id, states=(GrantState.ACTIVE, GrantState.PAUSED), now=now)
    source, ids = source_of_connections(connection_ids, owner_id=old.package.owner_id)
    if source.pk != old.source_id or source.current_declaration_id is None:
        message = "The connections must belong to the source of the old grant."
        raise InvalidRequest(message=message, param="connections")
    successor = copy_grant(
        old,
        declaration_id=source.current_declaration_id,
        streams=_narrowed(old, streams, declaration_id=source.current_declaration_id, ids=ids),
        issued_at=now,
        expires_at=min((e for e in (old.expires_at, expires_at) if e is not None), default=None),
    )
    supersede(old, limits, by=successor, now=now)
    return successor


def lock_grant(
    grant_id: str, *, states: Collection[GrantState], now: datetime
) -> tuple[Grant, list[Quota]]:
    """Lock a grant and its quotas until the transaction ends.

    Raises ``GrantRevoked`` if it is in none of the states.
    """
    lock_packages(pk__in=Grant.unscoped.filter(pk=grant_id).values("package"))
    limits = lock_quotas(grant_id)
    grant = with_grant_state(now).select_for_update(of=("self",)).filter(pk=grant_id).first()
    if grant is None or state_of(grant) not in states:
        raise GrantRevoked
    return grant, limits


def copy_grant(old: Grant, **changes: Any) -> Grant:
    """Create a grant of the same package and source that differs in ``changes``."""
    columns: dict[str, Any] = {
        name: getattr(old, name)
        for name in (
            "package", "source", "purpose_code", "purpose_description", "access_mode", "retention",
            "paused_at", "readable_until", "extends",
        )
    }  # fmt: skip
    return Grant.unscoped.create(grant_id=new_id("grt_"), **columns | changes)


def supersede(old: Grant, limits: Sequence[Quota], *, by: Grant, now: datetime) -> None:
    """Put a successor in the place of a locked grant, with its quotas and their usage."""
    Grant.unscoped.filter(pk=old.pk).update(superseded_by=by)
    transfer_quotas(old.pk, limits, to=by.pk, now=now)


def _narrowed(
    old: Grant, streams: Sequence[StreamRequest], *, declaration_id: int, ids: frozenset[str]
) -> list[dict[str, Any]]:
    """Return the serialized terms of the successor."""
    declared_streams = load_declarations([declaration_id])[declaration_id].declaration.streams
    old_terms = {terms.name: terms for terms, _ in terms_of(old)}
    terms = [
        _require_narrower(
            resolve_terms(request, streams=declared_streams, connection_ids=ids),
            old_terms.get(request.name),
            declared_streams[request.name],
        )
        for request in streams
    ]
    time_fields = {name: stream.consent_time_field for name, stream in declared_streams.items()}
    return serialize_terms(terms, time_fields=time_fields)


def _require_narrower(
    new: StreamTerms, old: StreamTerms | None, stream: StreamDeclaration
) -> StreamTerms:
    """Return ``new`` without filters, views and relations that ``old`` lacks.

    Raises ``InvalidRequest`` if ``new`` shows more than ``old``.
    """
    if old is None:
        raise InvalidRequest(
            message=f"The old grant does not include {new.name!r}.", param="streams"
        )
    if not new.connection_ids <= old.connection_ids:
        raise InvalidRequest(
            message="The old grant does not include the connection.", param="connections"
        )
    if not _is_subset(new.fields, old.fields):
        raise InvalidRequest(message="The old grant does not include the field.", param="fields")
    if not _is_subset(new.records, old.records):
        raise InvalidRequest(
            message="The old grant does not include the record.", param="resources"
        )
    if not _is_within_time(new.time, old.time):
        raise InvalidRequest(
            message="The old grant does not include the time range.", param="since"
        )
    old_relations = old.relations if not isinstance(old.relations, Everything) else ()
    new_relations = new.relations if not isinstance(new.relations, Everything) else ()
    return replace(
        new,
        filters=_intersection(new.filters, old.filters, among=stream.fields),
        views=_intersection(new.views, old.views, among=stream.views),
        relations=tuple(relation for relation in new_relations if relation in old_relations),
    )


def _is_subset(new: Allowed, old: Allowed) -> bool:
    if isinstance(old, Everything):
        return True
    return isinstance(new, Only) and new.names <= old.names


def _is_within_time(new: TimeRange | None, old: TimeRange | None) -> bool:
    if old is None:
        return True
    if new is None:
        return False
    after = old.since is None or (new.since is not None and new.since >= old.since)
    before = old.until is None or (new.until is not None and new.until <= old.until)
    return after and before


def _intersection(new: Allowed, old: Allowed, *, among: Iterable[str]) -> Only:
    return Only(frozenset(name for name in among if new.allows(name) and old.allows(name)))


@transaction.atomic
def suspend_all(*, now: datetime) -> tuple[int, int]:
    """Pause all grants and revoke all tokens of owners and collectors after a restore.

    Returns the number of each.

    Otherwise access that was revoked after the backup would work again.
    """
    paused = Grant.unscoped.filter(revoked_at=None, paused_at=None).update(paused_at=now)
    owner_tokens = AccessToken.unscoped.filter(kind=TokenKind.OWNER, revoked_at=None)
    collectors = Collector.unscoped.filter(revoked_at=None).update(revoked_at=now)
    return paused, owner_tokens.update(revoked_at=now) + collectors


def revoke_grants_of_connection(connection_id: str, *, now: datetime) -> int:
    """Revoke the grants that have no other existing connection. Returns their number."""
    others = set(Connection.unscoped.exclude(pk=connection_id).values_list("pk", flat=True))
    usable = [
        grant for state in (GrantState.ACTIVE, GrantState.PAUSED)
        for grant in filter_state(with_grant_state(now), state)
    ]  # fmt: skip
    orphaned = [grant for grant in usable if not others.intersection(connection_ids(grant))]
    return sum(
        revoke_grant(grant.grant_id, now=now)
        for grant in orphaned
        if connection_id in connection_ids(grant)
    )


@transaction.atomic
def delete_access(owner_id: str) -> Counter[str]:
    """Delete every grant, token and client of an owner. Returns the number of each."""
    of_owner = {"owner_id": owner_id}
    removed = Counter(
        {
            "tokens": _delete(AccessToken.unscoped.filter(**of_owner)),
            "collectors": _delete(Collector.unscoped.filter(**of_owner)),
            "grants": _delete_grants(owner_id),
            "bookmarks": _delete(Bookmark.unscoped.filter(**of_owner)),
        }
    )
    _delete(RefusedCall.unscoped.filter(**of_owner))
    _delete(Package.unscoped.filter(**of_owner))
    removed["clients"] = _delete(Client.unscoped.filter(**of_owner))
    return +removed


def _delete_grants(owner_id: str) -> int:
    """Delete grants, each superseded or temporary grant before the one that it refers to."""
    grants = Grant.unscoped.filter(package__owner_id=owner_id)
    superseded = Grant.unscoped.filter(Q(superseded_by=OuterRef("pk")) | Q(extends=OuterRef("pk")))
    total = 0
    while count := _delete(grants.filter(~Exists(superseded))):
        total += count
    return total


def _delete(rows: QuerySet[Any]) -> int:
    """Delete rows and return their number, without cascaded rows."""
    return rows.delete()[1].get(f"evidence.{rows.model.__name__}", 0)


SINGLE_USE_WINDOW = timedelta(minutes=10)

OPEN_WINDOW = """
-- Open the window of single-use grants without one, and lock the grants until the answer is given.
-- Returns those whose window has closed meanwhile. Parameters: end of the window, owner id,
-- grant ids, owner id, now, grant ids.
WITH opened AS (
    UPDATE evidence_grant SET readable_until = %s
    WHERE owner_id = %s AND grant_id = ANY(%s) AND readable_until IS NULL
)
SELECT grant_id FROM evidence_grant
WHERE owner_id = %s AND readable_until <= %s AND grant_id = ANY(%s)
"""


def use_once(scope: Scope, disclosing: Iterable[str], *, now: datetime) -> None:
    """Open the window of each single-use grant among the grants through which an answer discloses.

    Call it in the transaction of the answer. One query, or none without a single-use grant. Raises
    ``GrantConsumed`` if a window has closed since the token was looked up.
    """
    single_use = {str(grant.grant_id) for grant in scope.grants if grant.single_use}
    grant_ids = sorted(single_use & set(disclosing))
    if not grant_ids:
        return
    if fetch_prepared(
        SQL(
            OPEN_WINDOW,
            (now + SINGLE_USE_WINDOW, scope.owner_id, grant_ids, scope.owner_id, now, grant_ids),
        )
    ):
        raise GrantConsumed
