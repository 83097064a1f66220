"""Taking away who may read: grants that lead nowhere any more, and all that an owner gave."""

from collections import Counter
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from evidence.access.held import State, connection_ids, grants_with_state, in_state
from evidence.access.issuing import revoke_grant
from evidence.models.authorizations import (
    AuthorizationCode,
    FamilyMember,
    PendingRequest,
    RefreshFamily,
    RefreshToken,
)
from evidence.models.bookmarks import Bookmark
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.models.grants import AccessToken, Grant, Package
from evidence.models.registrations import Registration


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
