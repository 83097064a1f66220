"""Create and encrypt webhook signing secrets, bound to their subscription.

A copy of the database cannot sign, and a secret moved to another subscription cannot be decrypted.
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
    """Return `whsec_` and 32 random bytes in base64 (Standard Webhooks)."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def encrypt_secret(secret: str, *, subscription_id: str) -> bytes:
    """Encrypt a secret with the server's key."""
    return crypto.encrypt(secret.encode(), purpose=PURPOSE, bound_to=subscription_id)


def decrypt_secret(encrypted: bytes, *, subscription_id: str) -> str:
    """Decrypt a secret. Raises InvalidTag for another key or another subscription."""
    return crypto.decrypt(encrypted, purpose=PURPOSE, bound_to=subscription_id).decode()


@transaction.atomic
def reencrypt() -> int:
    """Encrypt all secrets with the current key, and return the number of subscriptions changed.

    A subscription whose secrets cannot be decrypted stays unchanged.
    """
    count = 0
    for row in Subscription.unscoped.select_for_update().order_by("pk"):
        with contextlib.suppress(InvalidTag):
            row.secret = _reencrypt(row.secret, row.pk)
            row.old_secret = None if row.old_secret is None else _reencrypt(row.old_secret, row.pk)
            row.save(update_fields=["secret", "old_secret"])
            count += 1
    return count


def _reencrypt(encrypted: bytes | memoryview, subscription_id: str) -> bytes:
    secret = decrypt_secret(bytes(encrypted), subscription_id=subscription_id)
    return encrypt_secret(secret, subscription_id=subscription_id)
