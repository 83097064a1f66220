"""How JSON is written for models: compact UTF-8, and nothing in it that the eye cannot see.

Invisible, bidirectional and tag characters inside strings become JSON escapes. Whoever parses the
text gets the very same values; whoever only reads it sees that something stands there.
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
    """One line of JSON, with invisible characters escaped."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        # Integers beyond 64 bits and lone surrogates, which orjson refuses.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text = _LONE_SURROGATE.sub(_escape, text)
    return escape_invisible(text)


def escape_invisible(text: str) -> str:
    """JSON text with every invisible character as `\\uXXXX`; they can only stand in strings."""
    # Nearly everything is ASCII, which is taken out at the speed of memory.
    others = text.encode().translate(None, _VISIBLE_ASCII)
    if others:
        for character in _INVISIBLE.intersection(others.decode()):
            text = text.replace(character, _escaped(character))
    return text


def _escape(match: re.Match[str]) -> str:
    return _escaped(match[0])


def _escaped(character: str) -> str:
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def size(value: Any) -> int:
    """UTF-8 bytes of the value as JSON, which is what every budget counts."""
    return len(dumps(value).encode())


def wire_size(text: str) -> int:
    """UTF-8 bytes of a text block as it travels: itself a JSON string, quotes included."""
    return len(orjson.dumps(text))
