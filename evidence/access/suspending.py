"""Nobody reads anything until the owner says so again: after a restore."""

from datetime import datetime

from django.db import transaction

from evidence.access.scope import TokenKind
from evidence.models.grants import AccessToken, Grant


@transaction.atomic
def suspend_all(*, now: datetime) -> tuple[int, int]:
    """Pauses every grant and ends every owner token; how many of each. What was ended since a
    backup was made would otherwise work again."""
    paused = Grant.unscoped.filter(revoked_at=None, paused_at=None).update(paused_at=now)
    own = AccessToken.unscoped.filter(kind=TokenKind.OWNER, revoked_at=None)
    return paused, own.update(revoked_at=now)
