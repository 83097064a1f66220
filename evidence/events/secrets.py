"""The secrets that events are signed with: made here, kept sealed, shown once.

They are sealed under the installation's key and bound to their subscription, so that a copy of the
database signs nothing and a row moved to another subscription opens nothing.
"""

import base64
import contextlib
import os
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.db import transaction

from evidence.access.secrets import key_for, keys_for
from evidence.models.events import Subscription

PREFIX = "whsec_"
SECRET_BYTES = 32
NONCE = 12


def new_secret() -> str:
    """``whsec_`` and 32 random bytes in base64 (Standard Webhooks)."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def sealed(secret: str, *, subscription_id: str) -> bytes:
    nonce = os.urandom(NONCE)
    cipher = AESGCM(key_for("webhook-secret"))
    return nonce + cipher.encrypt(nonce, secret.encode(), _bound_to(subscription_id))


def opened(kept: bytes, *, subscription_id: str) -> str:
    """Raises ``cryptography.exceptions.InvalidTag`` where it is not ours, or of another one."""
    for key in keys_for("webhook-secret"):
        with contextlib.suppress(InvalidTag):
            content = AESGCM(key).decrypt(kept[:NONCE], kept[NONCE:], _bound_to(subscription_id))
            return content.decode()
    raise InvalidTag


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


def _bound_to(subscription_id: str) -> bytes:
    return subscription_id.encode()
