"""How many bytes something takes where a model is shown it.

That is UTF-8 JSON, but with every character that cannot be seen as an escape (``limits.INVISIBLE``),
because that is how it reaches a model: a byte more or less on our own wire does not matter, a budget
that hostile text outgrows does.
"""

import orjson

from evidence import limits

_VISIBLE_ASCII = bytes(range(0x7F))
_ESCAPED = {
    chr(code): (6 if code <= 0xFFFF else 12) - len(chr(code).encode())
    for first, last in limits.INVISIBLE
    for code in range(first, last + 1)
}


def size(value: object) -> int:
    """Bytes of the value as JSON."""
    raw = orjson.dumps(value)
    return len(raw) + _escapes(raw)


def quoted_size(value: object) -> int:
    """Bytes of the value as JSON inside a JSON string."""
    raw = orjson.dumps(value)
    escaped = _escapes(raw, each=1)
    return len(raw) + escaped + raw.count(b'"') + raw.count(b"\\")


def _escapes(raw: bytes, *, each: int = 0) -> int:
    """What escaping adds; ``each`` for every backslash that it brings."""
    others = raw.translate(None, _VISIBLE_ASCII)
    if not others:
        return 0
    found = [_ESCAPED[char] for char in others.decode() if char in _ESCAPED]
    # Characters beyond 16 bits take two escapes.
    return sum(found) + each * sum(2 if more >= 8 else 1 for more in found)
