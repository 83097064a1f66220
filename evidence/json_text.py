"""Serialize text as JSON, measure its bytes, and cut it between graphemes.

Invisible, bidirectional and tag characters become JSON escapes: parsing gives the same values, and
readers of the raw text see that a character is there.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import orjson
import regex

from evidence import limits

_INVISIBLE = frozenset(
    chr(code) for first, last in limits.INVISIBLE for code in range(first, last + 1)
)
_VISIBLE_ASCII = bytes(range(0x7F))
_DELETE = frozenset("\x7f")
"""The only invisible ASCII character that JSON does not escape."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_GRAPHEME = regex.compile(r"\X")
_OTHER = regex.compile(r"\p{Grapheme_Cluster_Break=Other}")
_LONG_TEXT_CHARS = 50_000
_LOOK_BACK = 128
"""Far enough back for the start of any real cluster; only absurd ones and rows of flags are longer."""


def dumps(value: Any) -> str:
    """Serialize a value as one line of JSON, with invisible characters escaped."""
    content = _encode(value)
    text = content.decode()
    for character in _invisible(content):
        text = text.replace(character, _escape(character))
    return text


def _encode(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # orjson refuses integers beyond 64 bits and lone surrogates.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return _LONE_SURROGATE.sub(lambda match: _escape(match[0]), text).encode()


def _invisible(content: bytes) -> frozenset[str]:
    """Return the invisible characters of UTF-8 text."""
    if content.isascii():
        return _DELETE if b"\x7f" in content else frozenset()
    return _INVISIBLE.intersection(content.translate(None, _VISIBLE_ASCII).decode())


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


class Size(NamedTuple):
    """Bytes in the structured channel and in the text channel."""

    structured: int
    text: int

    def plus(self, other: "Size") -> "Size":
        return Size(self.structured + other.structured, self.text + other.text)

    def fits(self, room: "Size") -> bool:
        return self.structured <= room.structured and self.text <= room.text


def sum_sizes(sizes: Iterable[Size]) -> Size:
    """Return the sum of sizes by channel."""
    return reduce(Size.plus, sizes, Size(0, 0))


def json_size(value: Any) -> int:
    """Return the UTF-8 bytes of the value as JSON, the unit of every budget."""
    is_long = isinstance(value, str) and len(value) > _LONG_TEXT_CHARS
    return _long_text_size(value) if is_long else _size(value)


@lru_cache(maxsize=4)
def _long_text_size(text: str) -> int:
    """Return the size of a long text, which fitting a page asks for at each length that it tries."""
    return _size(text)


def _size(value: Any) -> int:
    content = _encode(value)
    return len(dumps(value).encode() if _invisible(content) else content)


def wire_size(text: str) -> int:
    """Return the UTF-8 bytes of a text block in the response: a JSON string with its quotes."""
    return len(orjson.dumps(text))


def clip_bytes(text: str, max_bytes: int) -> str:
    """Cut text until its JSON takes at most `max_bytes`."""
    while json_size(text) > max_bytes:
        text = clip(text, len(text) * 3 // 4)
    return text


def clip(text: str, max_chars: int) -> str:
    """Cut text to `max_chars` characters, the last one an ellipsis if any were cut."""
    if len(text) <= max_chars:
        return text
    return f"{text[: grapheme_floor(text, max(max_chars - 1, 0))]}…"


def grapheme_floor(text: str, i: int) -> int:
    """Return the last grapheme boundary at or before `i`, or `i` if none is near."""
    before, _ = _boundaries(text, i)
    return before


def grapheme_ceil(text: str, i: int) -> int:
    """Return the first grapheme boundary at or after `i`, or `i` if none is near."""
    _, after = _boundaries(text, i)
    return after


def _boundaries(text: str, i: int) -> tuple[int, int]:
    if i <= 0 or i >= len(text):
        inside = min(max(i, 0), len(text))
        return inside, inside
    if _is_separate(text[i - 1]) and _is_separate(text[i]):
        return i, i
    start, limit = _certain_boundary(text, i), limits.WINDOW_GRAPHEME_CHARS
    # A slice, because in a row of flags the library looks back to the start of its input.
    for cluster in _GRAPHEME.finditer(text[start : i + limit + 1]):
        first, last = cluster.start() + start, cluster.end() + start
        if last == i:
            return i, i
        if last > i:
            return (first if i - first <= limit else i), (last if last - i <= limit else i)
    return i, i


def _certain_boundary(text: str, i: int) -> int:
    """Return a boundary before `i` from which to iterate over clusters."""
    furthest = max(0, i - _LOOK_BACK)
    for at in range(i - 1, furthest, -1):
        if _is_separate(text[at - 1]) and _is_separate(text[at]):
            return at
    return furthest


def _is_separate(character: str) -> bool:
    """Return whether the character never joins others like it: letters, ideographs, punctuation."""
    return " " <= character <= "~" or _OTHER.match(character) is not None
