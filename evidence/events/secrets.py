"""The secrets that events are signed with: made here, kept sealed, shown once.

They are sealed under the installation's key and bound to their subscription, so that a copy of the
database signs nothing and a row moved to another subscription opens nothing.
"""

import base64
import os
import secrets

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from evidence.access.secrets import key_for

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
    cipher = AESGCM(key_for("webhook-secret"))
    return cipher.decrypt(kept[:NONCE], kept[NONCE:], _bound_to(subscription_id)).decode()


def _bound_to(subscription_id: str) -> bytes:
    return subscription_id.encode()
