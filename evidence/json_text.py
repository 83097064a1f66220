"""Serialize JSON as compact UTF-8 with invisible characters escaped, and measure its size.

Invisible, bidirectional and tag characters become JSON escapes: parsing gives the same values, and
readers of the raw text see that a character is there.
"""

import json
import re
from typing import Any

import orjson

from evidence import limits

_INVISIBLE = frozenset(
    chr(code) for first, last in limits.INVISIBLE for code in range(first, last + 1)
)
_VISIBLE_ASCII = bytes(range(0x7F))
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(value: Any) -> str:
    """Serialize a value as one line of JSON, with invisible characters escaped."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        # orjson refuses integers beyond 64 bits and lone surrogates.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text = _LONE_SURROGATE.sub(lambda match: _escape(match[0]), text)
    return escape_invisible(text)


def escape_invisible(text: str) -> str:
    """Escape every invisible character of JSON text as `\\uXXXX`."""
    # Most text is ASCII, which `translate` removes quickly.
    non_ascii = text.encode().translate(None, _VISIBLE_ASCII)
    if non_ascii:
        for character in _INVISIBLE.intersection(non_ascii.decode()):
            text = text.replace(character, _escape(character))
    return text


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def json_size(value: Any) -> int:
    """Return the UTF-8 bytes of the value as JSON, the unit of every budget."""
    return len(dumps(value).encode())


def wire_size(text: str) -> int:
    """Return the UTF-8 bytes of a text block in the response: a JSON string with its quotes."""
    return len(orjson.dumps(text))
