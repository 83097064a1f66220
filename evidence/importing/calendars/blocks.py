"""Files of components between BEGIN and END lines -> one component at a time.

A parser that is given a whole calendar gives up on it at its first fault; given one entry at a time
it gives up on that entry.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

FILE_BYTES = 128 * 1024 * 1024
BLOCK_BYTES = 1024 * 1024
BLOCK_LINES = 20_000


class Block(NamedTuple):
    """``line`` counts from 1; ``text`` is without pictures and sounds, and None for one that is too
    long all the same."""

    name: str
    line: int
    text: bytes | None
    size: int


_BEGIN = re.compile(rb"^BEGIN:([A-Za-z0-9-]+)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_EMBEDDED = re.compile(
    rb"^(?:[\w-]+\.)?(?:PHOTO|LOGO|SOUND|KEY|ATTACH)[;:][^\n]*\n(?:[ \t][^\n]*\n)*",
    re.MULTILINE | re.IGNORECASE,
)
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
        text = _EMBEDDED.sub(b"", content[begin.start() : end])
        is_short = len(text) <= BLOCK_BYTES and text.count(b"\n") <= BLOCK_LINES
        yield Block(name, line + 1, text if is_short else None, size)
        at = end


def _end(content: bytes, name: str, at: int) -> int:
    mark = rb"^(BEGIN|END):" + name.encode() + rb"[ \t]*\r?$"
    found = re.compile(mark, re.MULTILINE | re.IGNORECASE).search(content, at)
    if found is None:
        return len(content)
    return found.start() if found[1].upper() == b"BEGIN" else found.end()


def value(text: bytes, name: str) -> str | None:
    """The value of the first line of this name, unfolded, its parameters left away."""
    found = re.search(
        rb"^" + name.encode() + rb"(?:;[^:\r\n]*)?:(.*?)\r?$",
        _FOLD.sub(b"", text),
        re.MULTILINE | re.IGNORECASE,
    )
    return found[1].decode("utf-8", "replace").strip() if found else None
