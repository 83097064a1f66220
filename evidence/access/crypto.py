"""Generate ids and bearer tokens, derive keys per purpose, and encrypt values.

Each key is derived from ``settings.SECRET_KEY`` for one purpose, so a hash made for one purpose
cannot be looked up as another. After a rotation (``manage.py keys``, docs/keys.md) some keys are
derived from a secret of their own. Previous keys stay valid until they are retired.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

OWNER_PREFIX = "pdpp_own_"
ACCESS_PREFIX = "pdpp_at_"
REFRESH_PREFIX = "pdpp_rt_"
MAX_BEARER_CHARS = 200
NONCE_BYTES = 12
TAG_BYTES = 16

ROTATION_GROUPS = {
    "bearer": "tokens",
    "refresh token": "tokens",
    "client secret": "tokens",
    "cursor": "cursors",
    "ledger checkpoints": "signing",
}
"""Key purpose -> name of its rotation. Other purposes rotate with the installation's secret."""


def new_id(prefix: str) -> str:
    """Return ``prefix`` and 24 hex digits: ``cin_``, ``grt_``, ``pkg_``, …"""
    return prefix + secrets.token_hex(12)


def new_bearer(prefix: str) -> str:
    """Return a bearer token of 256 random bits. The database stores only its digest."""
    return prefix + secrets.token_urlsafe(32)


@lru_cache(maxsize=32)
def _derive(secret: str, purpose: str) -> bytes:
    return hmac.digest(secret.encode(), b"pdpp/" + purpose.encode(), hashlib.sha256)


def key_for(purpose: str) -> bytes:
    """Return the current key of a purpose: 32 bytes, stable until its secret changes."""
    return keys_for(purpose)[0]


def keys_for(purpose: str) -> list[bytes]:
    """Return the current key of a purpose, then its previous keys.

    An empty rotated secret stands for the installation's current and previous secrets.
    """
    installation = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    rotated = settings.PDPP_ROTATED_KEYS.get(ROTATION_GROUPS.get(purpose, "")) or [""]
    return [
        _derive(secret, purpose)
        for rotated_secret in rotated
        for secret in ([rotated_secret] if rotated_secret else installation)
    ]


def bearer_digest(bearer: str) -> bytes:
    """Return the digest that is stored in place of a new bearer token."""
    return digest_for("bearer", bearer)


def bearer_digests(bearer: str) -> list[bytes]:
    """Return the digests to look a bearer token up by: more than one while keys overlap."""
    return digests_for("bearer", bearer)


def digest_for(purpose: str, secret: str) -> bytes:
    """Return the digest that is stored in place of a new secret of one purpose."""
    return hmac.digest(key_for(purpose), secret.encode(), hashlib.sha256)


def digests_for(purpose: str, secret: str) -> list[bytes]:
    """Return the digests to look a secret up by: more than one while keys overlap."""
    return [hmac.digest(key, secret.encode(), hashlib.sha256) for key in keys_for(purpose)]


def encrypt(content: bytes, *, purpose: str, bound_to: str = "") -> bytes:
    """Encrypt with AES-GCM. The result is ``NONCE_BYTES`` and ``TAG_BYTES`` longer."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key_for(purpose)).encrypt(nonce, content, bound_to.encode())


def decrypt(data: bytes, *, purpose: str, bound_to: str = "") -> bytes:
    """Decrypt the output of ``encrypt`` for the same purpose and context.

    Raises ``cryptography.exceptions.InvalidTag`` for other data, or ``ValueError`` if too short.
    """
    for key in keys_for(purpose):
        with contextlib.suppress(InvalidTag):
            return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound_to.encode())
    raise InvalidTag
