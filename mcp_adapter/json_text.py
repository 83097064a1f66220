"""How JSON is written for models: compact UTF-8, and nothing in it that the eye cannot see.

Invisible, bidirectional and tag characters inside strings become JSON escapes. Whoever parses the
text gets the very same values; whoever only reads it sees that something stands there.
"""

import json
import re
from typing import Any

import orjson

# What Unicode calls format characters, separators of lines, controls, variation selectors and
# fillers that draw nothing. `tests/mcp_adapter/test_json_text.py` holds this against unicodedata.
_INVISIBLE = re.compile(
    "["
    "\u007f-\u009f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u115f-\u1160"
    "\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
    "]"
)


def dumps(value: Any) -> str:
    """One line of JSON, with invisible characters escaped."""
    try:
        text = orjson.dumps(value).decode()
    except TypeError:
        # Integers beyond 64 bits and lone surrogates, which orjson refuses.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text = _LONE_SURROGATE.sub(_escape, text)
    return escape_invisible(text)


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def escape_invisible(text: str) -> str:
    """JSON text with every invisible character as `\\uXXXX`; they can only stand in strings."""
    return text if text.isascii() and "\x7f" not in text else _INVISIBLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
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
