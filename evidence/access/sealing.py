"""What must be read again and lies in the hands of others, or in the database: encrypted and
authenticated (AES-GCM) with the key of its purpose, and bound to where it belongs."""

import contextlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from evidence.access.secrets import key_for, keys_for

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
