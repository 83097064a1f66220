"""Validate names of connectors, streams, relations and fields.

Each name must fit in paths, query parameters and record ids.
"""

import re
import unicodedata
from typing import Final

from evidence.declarations.errors import DeclarationErrorCode, DocumentNode

STREAM_NAME_MAX_CHARS: Final = 64
FIELD_NAME_MAX_CHARS: Final = 128

_CONNECTOR_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED = frozenset("/\\:,[]")


def check_stream_name(node: DocumentNode) -> str | None:
    """Return the name of a stream if it is valid.

    The name occurs in `{connection_id}/{stream}:{record_id}`, in paths, and in `streams[]`, where
    `*` means all streams.
    """
    name = node.string(required=True, max_chars=STREAM_NAME_MAX_CHARS)
    if name == "*":
        node.add_error(DeclarationErrorCode.INVALID_NAME, "'*' means all streams.")
        return None
    if name is None or (
        _is_addressable(name) and " " not in name and ".." not in name and name != "."
    ):
        return name
    node.add_error(
        DeclarationErrorCode.INVALID_NAME,
        "A stream name has no white space, control characters, '..' or any of / \\ : , [ ].",
    )
    return None


def check_relation_name(node: DocumentNode) -> str | None:
    """Return the name of a relation if it is valid.

    The name occurs in `expand`, where a dot means a path, and in `expand_limit[…]`.
    """
    name = node.string(required=True, max_chars=STREAM_NAME_MAX_CHARS)
    if name is None or (_is_addressable(name) and " " not in name and "." not in name):
        return name
    node.add_error(
        DeclarationErrorCode.INVALID_NAME,
        "A relation name has no white space, control characters or any of . / \\ : , [ ].",
    )
    return None


def check_field_name(name: str, *, node: DocumentNode) -> None:
    """Check that a name fits in `fields=a,b` and `filter[…]`. Spaces are valid."""
    is_short = 0 < len(name) <= FIELD_NAME_MAX_CHARS
    if not is_short or not name.isprintable() or set(name) & set(",[]"):
        node.add_error(
            DeclarationErrorCode.INVALID_NAME,
            f"A field name has 1 to {FIELD_NAME_MAX_CHARS} printable characters and none of , [ ].",
        )


def check_connector_key(key: str, *, node: DocumentNode) -> None:
    """Check that a key can be typed on a command line."""
    if not _CONNECTOR_KEY.fullmatch(key):
        node.add_error(
            DeclarationErrorCode.INVALID_NAME,
            "A connector key has 1 to 64 ASCII letters, digits, dots, hyphens and underscores, and "
            "starts with a letter or digit. Set connector_key if the id ends differently.",
        )


def _is_addressable(name: str) -> bool:
    # Names that look the same must be the same, so only one normal form is valid.
    is_normalized = unicodedata.is_normalized("NFC", name)
    return is_normalized and name.isprintable() and not set(name) & _RESERVED
