"""Keyed hashes that stand in rows in place of what the owner's records say.

Here and not in ``storing``, because ``access`` compares them with today's values. Without the
secret they tell nobody what was hashed, however short it was.
"""

import hashlib
import hmac
import json
from functools import lru_cache

from django.conf import settings

DIGEST_BYTES = 16


def value_digest(value: object) -> str:
    """The hash of one JSON value: equal values have equal hashes, and 1 equals 1.0 as in jsonb."""
    return _digest("value", _canonical(value)).hex()


def key_digest(record_key: str, *, connection_id: str, stream: str) -> bytes:
    """The hash of a record's name, as kept on the suppression list."""
    return _digest("suppression", json.dumps([connection_id, stream, record_key]).encode())


@lru_cache(maxsize=8)
def _key(secret: str, purpose: str) -> bytes:
    return hmac.digest(secret.encode(), b"pdpp/storing/" + purpose.encode(), hashlib.sha256)


def _digest(purpose: str, content: bytes) -> bytes:
    key = _key(_secret(), purpose)
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES, key=key).digest()


def _secret() -> str:
    """The first that the installation had: whatever is kept of a record, it cannot be made anew."""
    first: list[str] = settings.PDPP_ROTATED_KEYS.get("marks") or [settings.SECRET_KEY]
    return first[0]


def _canonical(value: object) -> bytes:
    text = json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))
    return text.encode()


def _plain(value: object) -> object:
    """``value`` with every whole number as an integer: jsonb gives 1e16 back without a point."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case _:
            return value
