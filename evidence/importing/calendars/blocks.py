"""Files of components between BEGIN and END lines -> one component at a time.

A parser that is given a whole calendar gives up on it at its first fault; given one entry at a time
it gives up on that entry.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

FILE_BYTES = 128 * 1024 * 1024
BLOCK_BYTES = 4 * 1024 * 1024


class Block(NamedTuple):
    """``line`` counts from 1; ``text`` is None for one that is too long."""

    name: str
    line: int
    text: bytes | None
    size: int


_BEGIN = re.compile(rb"^BEGIN:([A-Za-z0-9-]+)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_FOLD = re.compile(rb"\r?\n[ \t]")


def blocks(content: bytes, *, names: frozenset[str]) -> Iterator[Block]:
    """The outermost components of these names. One that never ends, ends where the next begins."""
    at = line = 0
    counted = 0
    while begin := _BEGIN.search(content, at):
        name = begin[1].decode("ascii").upper()
        at = begin.end()
        if name not in names:
            continue
        end = _end(content, name, at)
        line += content.count(b"\n", counted, begin.start())
        counted = begin.start()
        size = end - begin.start()
        text = content[begin.start() : end] if size <= BLOCK_BYTES else None
        yield Block(name, line + 1, text, size)
        at = end


def _end(content: bytes, name: str, at: int) -> int:
    closing = re.compile(rb"^END:" + name.encode() + rb"[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
    again = re.compile(rb"^BEGIN:" + name.encode() + rb"[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
    end = closing.search(content, at)
    next_begin = again.search(content, at, end.start() if end else len(content))
    if next_begin:
        return next_begin.start()
    return end.end() if end else len(content)


def value(text: bytes, name: str) -> str | None:
    """The value of the first line of this name, unfolded, its parameters left away."""
    found = re.search(
        rb"^" + name.encode() + rb"(?:;[^:\r\n]*)?:(.*?)\r?$",
        _FOLD.sub(b"", text),
        re.MULTILINE | re.IGNORECASE,
    )
    return found[1].decode("utf-8", "replace").strip() if found else None
