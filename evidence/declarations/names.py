"""What things may be called, so that every name can stand in a path, a parameter or a record id."""

import re
import unicodedata
from typing import Final

from evidence.declarations.errors import FaultCode, Spot

STREAM_NAME_CHARS: Final = 64
FIELD_NAME_CHARS: Final = 128

_CONNECTOR_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED = frozenset("/\\:,[]")


def stream_name(spot: Spot) -> str | None:
    """The name of a stream. It stands in `{connection_id}/{stream}:{record_id}`, in paths, and in
    `streams[]`; `*` means every stream in a request."""
    name = spot.text(required=True, most=STREAM_NAME_CHARS)
    if name is None or (
        _addressable(name) and " " not in name and ".." not in name and name != "."
    ):
        return _unless(name, "*", spot)
    spot.report(
        FaultCode.INVALID_NAME,
        "A stream name has no white space, control characters, '..' or any of / \\ : , [ ].",
    )
    return None


def relation_name(spot: Spot) -> str | None:
    """The name of a relation. It stands in `expand`, where a dot would mean a path, and in
    `expand_limit[…]`."""
    name = spot.text(required=True, most=STREAM_NAME_CHARS)
    if name is None or (_addressable(name) and " " not in name and "." not in name):
        return name
    spot.report(
        FaultCode.INVALID_NAME,
        "A relation name has no white space, control characters or any of . / \\ : , [ ].",
    )
    return None


def field_name(name: str, *, spot: Spot) -> None:
    """Report the name of a field that `fields=a,b` or `filter[…]` could not hold. Spaces are fine:
    exports have them."""
    if 0 < len(name) <= FIELD_NAME_CHARS and name.isprintable() and not set(name) & set(",[]"):
        return
    spot.report(
        FaultCode.INVALID_NAME,
        f"A field name has 1 to {FIELD_NAME_CHARS} printable characters and none of , [ ].",
    )


def connector_key(key: str, *, spot: Spot) -> None:
    """Report a key that could not be typed on a command line."""
    if not _CONNECTOR_KEY.fullmatch(key):
        spot.report(
            FaultCode.INVALID_NAME,
            "A connector key has 1 to 64 letters, digits, dots, hyphens and underscores of ASCII "
            "and starts with a letter or digit; state connector_key where the id ends otherwise.",
        )


def _addressable(name: str) -> bool:
    # Names that look the same must be the same: one normal form.
    normal = unicodedata.is_normalized("NFC", name)
    return normal and name.isprintable() and not set(name) & _RESERVED


def _unless(name: str | None, wildcard: str, spot: Spot) -> str | None:
    if name != wildcard:
        return name
    spot.report(FaultCode.INVALID_NAME, "'*' stands for every stream and names none.")
    return None
