"""Less of what a grant allows: a successor in the same package, never wider than the one it replaces.

The tokens stay, for they stand for the package. What was bound to the old grant, such as the bookmark
of a feed, has ended with it (design, section 4).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from evidence.access.crypto import new_id
from evidence.access.grant_states import (
    State,
    connection_ids,
    grants_with_state,
    in_state,
    state_of,
    terms_of,
)
from evidence.access.grant_terms import StreamRequest, frozen, resolved
from evidence.access.grants import hold_packages, one_source, revoke_grant
from evidence.access.quotas import hand_on_limits, hold_limits
from evidence.access.scope import Allowed, Everything, Only, StreamTerms, TimeRange, TokenKind
from evidence.declarations.declaration import StreamDeclaration
from evidence.errors import GrantRevoked, InvalidRequest
from evidence.models.accounts import Client
from evidence.models.connections import Connection
from evidence.models.events import Bookmark
from evidence.models.grants import AccessToken, Grant, Package
from evidence.models.oauth import (
    AuthorizationCode,
    FamilyMember,
    PendingRequest,
    RefreshFamily,
    RefreshToken,
    Registration,
)
from evidence.models.sources import declared


@transaction.atomic
def narrow(
    grant_id: str,
    streams: Sequence[StreamRequest],
    *,
    connection_ids: Sequence[str],
    expires_at: datetime | None,
    now: datetime,
) -> Grant:
    """The successor. It ends when the old grant would have, or at ``expires_at`` if that is sooner.

    Raises ``GrantRevoked`` where there is nothing left to narrow, ``InvalidRequest`` for anything
    wider, and what issuing raises.
    """
    hold_packages(pk__in=Grant.unscoped.filter(pk=grant_id).values("package"))
    limits = hold_limits(grant_id)
    old = grants_with_state(now).select_for_update(of=("self",)).filter(pk=grant_id).first()
    if old is None or state_of(old) not in (State.ACTIVE, State.PAUSED):
        raise GrantRevoked
    source, ids = one_source(connection_ids, owner_id=old.package.owner_id)
    if source.pk != old.source_id or source.current_declaration_id is None:
        raise InvalidRequest(message="A successor is of the same source.", param="connections")
    successor = Grant.unscoped.create(
        grant_id=new_id("grt_"),
        package=old.package,
        source=source,
        declaration_id=source.current_declaration_id,
        streams=_narrowed(old, streams, declaration_id=source.current_declaration_id, ids=ids),
        purpose_code=old.purpose_code,
        purpose_description=old.purpose_description,
        access_mode=old.access_mode,
        retention=old.retention,
        issued_at=now,
        expires_at=min((e for e in (old.expires_at, expires_at) if e is not None), default=None),
        paused_at=old.paused_at,
        readable_until=old.readable_until,
    )
    Grant.unscoped.filter(pk=old.pk).update(superseded_by=successor)
    hand_on_limits(old.pk, limits, to=successor.pk, now=now)
    return successor


def _narrowed(
    old: Grant, streams: Sequence[StreamRequest], *, declaration_id: int, ids: frozenset[str]
) -> list[dict[str, Any]]:
    """What the successor freezes of each stream."""
    known = declared([declaration_id])[declaration_id].declaration.streams
    held = {terms.name: terms for terms, _ in terms_of(old)}
    terms = [
        _within(
            resolved(each, streams=known, connection_ids=ids), held.get(each.name), known[each.name]
        )
        for each in streams
    ]
    time_fields = {name: stream.consent_time_field for name, stream in known.items()}
    return frozen(terms, time_fields=time_fields)


def _within(new: StreamTerms, old: StreamTerms | None, stream: StreamDeclaration) -> StreamTerms:
    """``new`` with no more rights of use than ``old`` froze; raises where it would show more."""
    if old is None:
        raise InvalidRequest(message=f"{new.name!r} was not granted.", param="streams")
    if not new.connection_ids <= old.connection_ids:
        raise InvalidRequest(message="A connection was not granted.", param="connections")
    if not _is_part(new.fields, old.fields):
        raise InvalidRequest(message="A field was not granted.", param="fields")
    if not _is_part(new.records, old.records):
        raise InvalidRequest(message="A record was not granted.", param="resources")
    if not _is_during(new.time, old.time):
        raise InvalidRequest(message="A time was not granted.", param="since")
    kept = old.relations if not isinstance(old.relations, Everything) else ()
    mine = new.relations if not isinstance(new.relations, Everything) else ()
    return replace(
        new,
        filters=_shared(new.filters, old.filters, among=stream.fields),
        views=_shared(new.views, old.views, among=stream.views),
        relations=tuple(each for each in mine if each in kept),
    )


def _is_part(new: Allowed, old: Allowed) -> bool:
    if isinstance(old, Everything):
        return True
    return isinstance(new, Only) and new.names <= old.names


def _is_during(new: TimeRange | None, old: TimeRange | None) -> bool:
    if old is None:
        return True
    if new is None:
        return False
    after = old.since is None or (new.since is not None and new.since >= old.since)
    before = old.until is None or (new.until is not None and new.until <= old.until)
    return after and before


def _shared(new: Allowed, old: Allowed, *, among: Iterable[str]) -> Only:
    return Only(frozenset(each for each in among if new.allows(each) and old.allows(each)))


@transaction.atomic
def suspend_all(*, now: datetime) -> tuple[int, int]:
    """Pauses every grant and ends every owner token; how many of each. What was ended since a
    backup was made would otherwise work again."""
    paused = Grant.unscoped.filter(revoked_at=None, paused_at=None).update(paused_at=now)
    own = AccessToken.unscoped.filter(kind=TokenKind.OWNER, revoked_at=None)
    return paused, own.update(revoked_at=now)


def end_grants_over(connection_id: str, *, now: datetime) -> int:
    """Ends the grants that no other connection is left to; how many."""
    others = set(Connection.unscoped.exclude(pk=connection_id).values_list("pk", flat=True))
    standing = [
        grant for state in (State.ACTIVE, State.PAUSED)
        for grant in in_state(grants_with_state(now), state)
    ]  # fmt: skip
    over = [each for each in standing if not others.intersection(connection_ids(each))]
    return sum(
        revoke_grant(grant.grant_id, now=now)
        for grant in over
        if connection_id in connection_ids(grant)
    )


@transaction.atomic
def forget_access(owner_id: str) -> Counter[str]:
    """Takes away every grant, token, sign-in and client of an owner; how many of each."""
    of_owner = {"owner_id": owner_id}
    members = FamilyMember.unscoped.filter(token__owner_id=owner_id)
    families = RefreshFamily.unscoped.filter(package__owner_id=owner_id)
    removed = Counter(
        {
            "sign-ins": _all(AuthorizationCode.unscoped.filter(package__owner_id=owner_id))
            + _all(PendingRequest.unscoped.all())
            + _all(members)
            + _all(RefreshToken.unscoped.filter(family__in=families))
            + _all(families),
            "tokens": _all(AccessToken.unscoped.filter(**of_owner)),
            "grants": _grants(owner_id),
            "bookmarks": _all(Bookmark.unscoped.filter(**of_owner)),
        }
    )
    _all(Package.unscoped.filter(**of_owner))
    removed["clients"] = _all(Client.unscoped.filter(**of_owner))
    removed["clients"] += _all(Registration.unscoped.all())
    return +removed


def _grants(owner_id: str) -> int:
    """A grant that was replaced goes before the one that replaced it."""
    mine = Grant.unscoped.filter(package__owner_id=owner_id)
    replaced = Grant.unscoped.filter(superseded_by=OuterRef("pk"))
    total = 0
    while count := _all(mine.filter(~Exists(replaced))):
        total += count
    return total


def _all(rows: QuerySet[Any]) -> int:
    """How many went, without what went with them."""
    return rows.delete()[1].get(f"evidence.{rows.model.__name__}", 0)
