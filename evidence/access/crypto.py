"""Ids, bearers and the keys that guard them.

Every key is derived from ``settings.SECRET_KEY`` for one purpose, so that a hash made for one
cannot be looked up as another; some are derived from a secret of their own once they have been
rotated (``manage.py keys``, docs/keys.md). What was made with an earlier one, or with an earlier
secret of the installation, is still known, until that is retired.
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
LONGEST_BEARER = 200


def new_id(prefix: str) -> str:
    """``prefix`` and 24 hex digits: ``cin_``, ``grt_``, ``pkg_``, …"""
    return prefix + secrets.token_hex(12)


def new_bearer(prefix: str) -> str:
    """A bearer of 256 random bits, shown once and kept only as a digest."""
    return prefix + secrets.token_urlsafe(32)


@lru_cache(maxsize=32)
def _derived(secret: str, purpose: str) -> bytes:
    return hmac.digest(secret.encode(), b"pdpp/" + purpose.encode(), hashlib.sha256)


ROTATED = {
    "bearer": "tokens",
    "refresh token": "tokens",
    "client secret": "tokens",
    "cursor": "cursors",
    "ledger checkpoints": "signing",
}
"""By which name the keys of a purpose are rotated. The others go with the installation's secret."""


def key_for(purpose: str) -> bytes:
    """32 bytes, the same for the same purpose until its secret changes."""
    return keys_for(purpose)[0]


def keys_for(purpose: str) -> list[bytes]:
    """The one to make things with, and those whose work is still known. An empty secret in the
    place of one stands for the installation's, today's and those before."""
    known = settings.PDPP_ROTATED_KEYS.get(ROTATED.get(purpose, "")) or [""]
    return [
        _derived(secret, purpose) for each in known for secret in ([each] if each else _secrets())
    ]


def _secrets() -> list[str]:
    return [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]


def bearer_digest(bearer: str) -> bytes:
    """What is stored in place of a bearer."""
    return hmac.digest(key_for("bearer"), bearer.encode(), hashlib.sha256)


def bearer_digests(bearer: str) -> list[bytes]:
    """What may be stored in place of it, and is looked up: one, but while keys overlap."""
    return digests_for("bearer", bearer)


def digest_for(purpose: str, secret: str) -> bytes:
    """The same for other secrets; one kind of secret is never found as another."""
    return hmac.digest(key_for(purpose), secret.encode(), hashlib.sha256)


def digests_for(purpose: str, secret: str) -> list[bytes]:
    """Likewise of other secrets."""
    return [hmac.digest(key, secret.encode(), hashlib.sha256) for key in keys_for(purpose)]


NONCE = 12
TAG = 16


def sealed(content: bytes, *, purpose: str, bound_to: str = "") -> bytes:
    """``NONCE`` and ``TAG`` bytes longer than ``content``."""
    nonce = os.urandom(NONCE)
    return nonce + AESGCM(key_for(purpose)).encrypt(nonce, content, _place(bound_to))


def opened(kept: bytes, *, purpose: str, bound_to: str = "") -> bytes:
    """Raises ``cryptography.exceptions.InvalidTag`` where it is not ours, of another purpose or
    place, and ``ValueError`` where it is too short for anything."""
    for key in keys_for(purpose):
        with contextlib.suppress(InvalidTag):
            return AESGCM(key).decrypt(kept[:NONCE], kept[NONCE:], _place(bound_to))
    raise InvalidTag


def _place(bound_to: str) -> bytes:
    return bound_to.encode()
