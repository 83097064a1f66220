"""Opaque cursors: encrypted, authenticated, bound to who asked and what was asked.

A cursor says nothing to its holder, its length does not vary with what it holds (it is padded to
a multiple of 32 bytes), and it works for the same rights, the same query and the same direction
only. Every misuse is told apart (contract 3.3, issue of the REST API).
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag

from evidence.access.crypto import NONCE, TAG, opened, sealed
from evidence.access.scope import Scope
from evidence.errors import CursorExpired, InvalidCursor

PURPOSE = "cursor"
BLOCK = 32
MARK_BYTES = 3
NO_MARK = "0" * 2 * MARK_BYTES


def seal(kind: str, *, scope: Scope, query: Mapping[str, Any], place: Mapping[str, Any]) -> str:
    """A cursor of one ``kind`` for ``place`` in the answer to ``query``."""
    content = _content(
        kind, owner=_mark(_holder(scope)), binding=_mark(scope.binding), query=query, place=place
    )
    content += b" " * (-len(content) % BLOCK)
    return base64.urlsafe_b64encode(sealed(content, purpose=PURPOSE)).rstrip(b"=").decode()


def length(kind: str, *, query: Mapping[str, Any], place: object) -> int:
    """How long the cursor that ``seal`` makes of the same is."""
    content = len(_content(kind, owner=NO_MARK, binding=NO_MARK, query=query, place=place))
    return -(-(NONCE + content + -content % BLOCK + TAG) * 4 // 3)


def _content(
    kind: str, *, owner: str, binding: str, query: Mapping[str, Any], place: object
) -> bytes:
    return orjson.dumps({"k": kind, "o": owner, "b": binding, "q": _marks(query), "p": place})


def unseal(
    cursor: str, kind: str, *, scope: Scope, query: Mapping[str, Any], param: str = "cursor"
) -> dict[str, Any]:
    """The place in ``cursor``. Raises ``InvalidCursor``, and ``CursorExpired`` when the grant
    behind it has been replaced since."""
    content = _opened(cursor, param)
    if content["k"] != kind:
        raise InvalidCursor(message="The cursor belongs to another kind of list.", param=param)
    if content["o"] != _mark(_holder(scope)):
        raise InvalidCursor(message="The cursor belongs to another grant.", param=param)
    if content["b"] != _mark(scope.binding):
        raise CursorExpired(
            message="The grant behind this cursor has changed; start again without a cursor.",
            param=param,
        )
    asked, bound = _marks(query), content["q"]
    changed = sorted(name for name in {*asked, *bound} if asked.get(name) != bound.get(name))
    if changed:
        raise InvalidCursor(
            message=f"The cursor belongs to another query: {', '.join(changed)} changed.",
            param=param,
            next_step="Repeat the query that gave the cursor, or start again without it.",
        )
    place: dict[str, Any] = content["p"]
    return place


def _marks(query: Mapping[str, Any]) -> dict[str, str]:
    """Each part of a query by a short mark: enough to say which of them changed."""
    return {name: _mark(value) for name, value in query.items() if value}


def _mark(value: object) -> str:
    return hashlib.blake2b(orjson.dumps(value), digest_size=MARK_BYTES).hexdigest()


def _holder(scope: Scope) -> str:
    return scope.package_id or scope.owner_id


def _opened(cursor: str, param: str) -> dict[str, Any]:
    not_ours = InvalidCursor(
        message="The cursor is not one of ours, or was changed.",
        param=param,
        next_step=f"Pass next_{param} exactly as it was given, or start again without it.",
    )
    try:
        kept = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        content: dict[str, Any] = orjson.loads(opened(kept, purpose=PURPOSE))
    except (binascii.Error, InvalidTag, ValueError) as error:
        raise not_ours from error
    return content
