"""Ids, bearer tokens, a key for each purpose, encrypted values, and page cursors.

Each key is derived from ``settings.SECRET_KEY`` for one purpose, so a hash made for one purpose
cannot be looked up as another. After a rotation (``manage.py keys``, docs/keys.md) some keys are
derived from a secret of their own. Previous keys stay valid until they are retired.

A cursor reveals nothing to its holder: its content is encrypted and padded to a multiple of 32
bytes. Cursors of lists are compressed too: these hold only what the holder saw and asked, while
bookmarks hold numbers that count hidden changes, which must not change a length. A cursor works only
for the same rights, query and direction, and each kind of misuse has its own error (contract 3.3).
"""

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import secrets
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from evidence.access.scope import Scope
from evidence.errors import CursorExpired, InvalidCursor
from evidence.models.owners import current_owner

OWNER_PREFIX = "pdpp_own_"
ACCESS_PREFIX = "pdpp_at_"
COLLECTOR_PREFIX = "pdpp_col_"
REFRESH_PREFIX = "pdpp_rt_"
MAX_BEARER_CHARS = 200
MAX_OWNER_ID_CHARS = 32
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


def new_secret(prefix: str) -> str:
    """Return a secret of 256 random bits of the current owner. The database stores only its digest.

    The owner's public id stands before the random part, so that a statement can name the owner.
    """
    return f"{prefix}{current_owner()}_{secrets.token_urlsafe(32)}"


def owner_in(secret: str, prefix: str) -> str:
    """Return the id of the owner in a secret, which nobody need have; empty if it has none."""
    owner_id, separator, _ = secret.removeprefix(prefix).partition("_")
    is_ours = bool(separator) and secret.startswith(prefix) and len(owner_id) <= MAX_OWNER_ID_CHARS
    return owner_id if is_ours and owner_id.isascii() and owner_id.isalnum() else ""


def owner_of_bearer(bearer: str) -> str:
    """Return the id of the owner in a bearer token of any kind; empty if it has none."""
    prefixes = (ACCESS_PREFIX, OWNER_PREFIX, COLLECTOR_PREFIX)
    return next(filter(None, (owner_in(bearer, prefix) for prefix in prefixes)), "")


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


PURPOSE = "cursor"
BLOCK_BYTES = 32
DIGEST_BYTES = 3
_COMPRESSED_KINDS = frozenset({"records", "search"})
_COMPRESSED = b"z"
"""First byte of compressed content. JSON begins with a brace."""
_DICTIONARY = (
    b'{"k":"records","k":"search","o":"","b":"","q":{"connection_id":"","connector_id":"","streams":"'
    b'","sort":"","filter":"","stream":"transactions","by":"","q":"","mode":"","order":""},"p":{"n":1,'
    b'"t":"2026-01-01T00:00:00+00:00","s":"2026-01-01T00:00:00Z","c":"cin_","s":"messages","r":"'
    b'","k":null}}'
)
"""What most cursors contain, so that compression leaves little more than ids."""


def encode_cursor(
    kind: str, *, scope: Scope, query: Mapping[str, Any], place: Mapping[str, Any]
) -> str:
    """Return a cursor of one ``kind`` for ``place`` in the results of ``query``."""
    content = _content(_members(kind, scope, query), place)
    content += b" " * (-len(content) % BLOCK_BYTES)
    return base64.urlsafe_b64encode(encrypt(content, purpose=PURPOSE)).rstrip(b"=").decode()


def cursor_length(
    kind: str, *, scope: Scope, query: Mapping[str, Any], places: Iterable[object]
) -> int:
    """Return the number of characters of the longest cursor that ``encode_cursor`` makes."""
    members = _members(kind, scope, query)
    content = max((len(_content(members, place)) for place in places), default=0)
    return -(-(NONCE_BYTES + content + -content % BLOCK_BYTES + TAG_BYTES) * 4 // 3)


def _members(kind: str, scope: Scope, query: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "k": kind,
        "o": _digest(_holder(scope)),
        "b": _digest(scope.binding),
        "q": _digests(query),
    }


def _content(members: dict[str, Any], place: object) -> bytes:
    content = orjson.dumps({**members, "p": place})
    if members["k"] not in _COMPRESSED_KINDS:
        return content
    # The smallest window and tables: to fill larger ones takes ten times as long as to compress.
    packer = zlib.compressobj(wbits=-10, memLevel=3, zdict=_DICTIONARY)
    return _COMPRESSED + packer.compress(content) + packer.flush()


def _parse(content: bytes) -> dict[str, Any]:
    if content.startswith(_COMPRESSED):
        unpacker = zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=_DICTIONARY)
        content = unpacker.decompress(content[1:])
    members: dict[str, Any] = orjson.loads(content)
    return members


def decode_cursor(
    cursor: str, kind: str, *, scope: Scope, query: Mapping[str, Any], param: str = "cursor"
) -> dict[str, Any]:
    """Return the place in ``cursor``.

    Raises ``InvalidCursor``, or ``CursorExpired`` when the grant behind it has been replaced.
    """
    content = _decrypt(cursor, param)
    if content["k"] != kind:
        raise InvalidCursor(message="The cursor belongs to another kind of list.", param=param)
    if content["o"] != _digest(_holder(scope)):
        raise InvalidCursor(message="The cursor belongs to another grant.", param=param)
    if content["b"] != _digest(scope.binding):
        raise CursorExpired(
            message="The grant behind this cursor has changed; start again without a cursor.",
            param=param,
        )
    requested, bound = _digests(query), content["q"]
    changed = sorted(
        name for name in {*requested, *bound} if requested.get(name) != bound.get(name)
    )
    if changed:
        raise InvalidCursor(
            message=f"The cursor belongs to another query: {', '.join(changed)} changed.",
            param=param,
            next_step="Repeat the query that returned the cursor, or start again without it.",
        )
    place: dict[str, Any] = content["p"]
    return place


def _digests(query: Mapping[str, Any]) -> dict[str, str]:
    """Return a short digest of each part of a query, enough to name the parts that changed."""
    return {name: _digest(value) for name, value in query.items() if value}


def _digest(value: object) -> str:
    return hashlib.blake2b(orjson.dumps(value), digest_size=DIGEST_BYTES).hexdigest()


def _holder(scope: Scope) -> str:
    return scope.package_id or scope.owner_id


def _decrypt(cursor: str, param: str) -> dict[str, Any]:
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        content = _parse(decrypt(data, purpose=PURPOSE))
    except (binascii.Error, InvalidTag, ValueError) as error:
        raise InvalidCursor(
            message="This server did not issue the cursor, or the cursor was changed.",
            param=param,
            next_step=f"Pass next_{param} exactly as it was returned, or start again without it.",
        ) from error
    return content
