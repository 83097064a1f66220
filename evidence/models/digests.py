"""Keyed hashes of record keys, values and identities.

Without the secret, even short values cannot be guessed from their hashes.
"""

import hashlib
import hmac
import json
from functools import lru_cache

from django.conf import settings

DIGEST_BYTES = 16


def value_digest(value: object) -> str:
    """Return the hash of a JSON value as hex; 1 and 1.0 are equal, as in jsonb."""
    return _digest("value", _canonical(value)).hex()


def key_digest(record_key: str, *, connection_id: str, stream: str) -> bytes:
    """Return the hash of a record's key for the suppression list."""
    return _digest("suppression", json.dumps([connection_id, stream, record_key]).encode())


def person_digest(identity: str) -> str:
    """Return the id of the person who has this identity, unless the owner merged it, as hex."""
    return _digest("person", identity.encode()).hex()


@lru_cache(maxsize=8)
def _key(secret: str, purpose: str) -> bytes:
    return hmac.digest(secret.encode(), b"pdpp/storing/" + purpose.encode(), hashlib.sha256)


def _digest(purpose: str, content: bytes) -> bytes:
    key = _key(_secret(), purpose)
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES, key=key).digest()


def _secret() -> str:
    """Return the installation's first secret, because these hashes cannot be computed again."""
    first: list[str] = settings.PDPP_ROTATED_KEYS.get("marks") or [settings.SECRET_KEY]
    return first[0]


def _canonical(value: object) -> bytes:
    text = json.dumps(_normalize_numbers(value), sort_keys=True, separators=(",", ":"))
    return text.encode()


def _normalize_numbers(value: object) -> object:
    """Replace integral floats by integers, because jsonb returns 1e16 as an integer."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_normalize_numbers(item) for item in value]
        case dict():
            return {name: _normalize_numbers(item) for name, item in value.items()}
        case _:
            return value
