"""Ids, bearers and the keys that guard them.

Every key is derived from ``settings.SECRET_KEY`` for one purpose, so that a hash made for one
cannot be looked up as another. Losing the secret ends every token and cursor, and nothing else.
"""

import hashlib
import hmac
import secrets
from functools import lru_cache

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


def key_for(purpose: str, secret_key: str | None = None) -> bytes:
    """32 bytes, the same for the same purpose until the secret changes; or those of another
    secret."""
    return _derived(settings.SECRET_KEY if secret_key is None else secret_key, purpose)


def bearer_digest(bearer: str) -> bytes:
    """What is stored and looked up in place of a bearer."""
    return hmac.digest(key_for("bearer"), bearer.encode(), hashlib.sha256)


def digest_for(purpose: str, secret: str) -> bytes:
    """The same for other secrets; one kind of secret is never found as another."""
    return hmac.digest(key_for(purpose), secret.encode(), hashlib.sha256)
