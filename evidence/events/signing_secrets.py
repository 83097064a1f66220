"""The secrets that events are signed with: made here, kept sealed, shown once.

They are sealed under the installation's key and bound to their subscription, so that a copy of the
database signs nothing and a row moved to another subscription opens nothing.
"""

import base64
import contextlib
import secrets

from cryptography.exceptions import InvalidTag
from django.db import transaction

from evidence.access import crypto
from evidence.models.events import Subscription

PREFIX = "whsec_"
SECRET_BYTES = 32
PURPOSE = "webhook-secret"


def new_secret() -> str:
    """``whsec_`` and 32 random bytes in base64 (Standard Webhooks)."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def sealed(secret: str, *, subscription_id: str) -> bytes:
    return crypto.sealed(secret.encode(), purpose=PURPOSE, bound_to=subscription_id)


def opened(kept: bytes, *, subscription_id: str) -> str:
    """Raises ``cryptography.exceptions.InvalidTag`` where it is not ours, or of another one."""
    return crypto.opened(kept, purpose=PURPOSE, bound_to=subscription_id).decode()


@transaction.atomic
def seal_anew() -> int:
    """Seals all of them with today's key; of how many subscriptions. One that cannot be opened
    stays as it is."""
    count = 0
    for row in Subscription.unscoped.select_for_update().order_by("pk"):
        with contextlib.suppress(InvalidTag):
            row.secret = _anew(row.secret, row.pk)
            row.old_secret = None if row.old_secret is None else _anew(row.old_secret, row.pk)
            row.save(update_fields=["secret", "old_secret"])
            count += 1
    return count


def _anew(kept: bytes | memoryview, subscription_id: str) -> bytes:
    return sealed(
        opened(bytes(kept), subscription_id=subscription_id), subscription_id=subscription_id
    )
