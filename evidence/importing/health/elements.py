"""A large XML file -> one element at a time.

Expat by itself, without a tree: a tree grows with the file even where its parts are thrown away.
The document type is left out unread, as Apple's has been faulty, and entities are what bombs are
made of; without it none is declared.
"""

import re
from collections.abc import Iterator
from typing import IO, NamedTuple
from xml.parsers import expat

from evidence.importing.codes import Code
from evidence.importing.items import UnreadableError

BLOCK_BYTES = 256 * 1024
_HEAD_BYTES = 1024 * 1024
ELEMENT_BYTES = 1024 * 1024
DEPTH = 100
_DOCTYPE_ENDS = re.compile(rb"\]\s*>")


class Element(NamedTuple):
    """``children`` are (name, attributes) of what is right below; ``size`` in bytes."""

    name: str
    attributes: dict[str, str]
    children: list[tuple[str, dict[str, str]]]
    line: int
    size: int


class _Collector:
    """Elements of the wanted names, wherever they stand."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self.done: list[Element] = []
        self._wanted = wanted
        self._open: Element | None = None
        self._depth = self._level = self._fed = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def feed(self, block: bytes, *, is_last: bool) -> None:
        """Raises ``UnreadableError`` for what grows without end: expat keeps all of it, and begins
        anew with every block."""
        self._fed += len(block)
        self._parser.Parse(block, is_last)
        began = self._parser.CurrentByteIndex if self._open is None else self._open.size
        if self._fed - began > ELEMENT_BYTES + BLOCK_BYTES and not is_last:
            raise UnreadableError(Code.TOO_LARGE)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._level += 1
        if self._level > DEPTH:
            raise UnreadableError(Code.MALFORMED, detail="nested too deeply")
        if self._open is not None:
            self._depth += 1
            if self._depth == 1 and len(self._open.children) < 1000:
                self._open.children.append((name, attributes))
        elif name in self._wanted:
            at = self._parser.CurrentByteIndex
            self._open = Element(name, attributes, [], self._parser.CurrentLineNumber, at)

    def _end(self, name: str) -> None:
        self._level -= 1
        if self._open is None:
            return
        if self._depth:
            self._depth -= 1
            return
        size = self._parser.CurrentByteIndex - self._open.size
        self.done.append(self._open._replace(size=size))
        self._open = None


def _without_doctype(head: bytes) -> bytes:
    """Lines keep their numbers."""
    start = head.find(b"<!DOCTYPE")
    inner, end = head.find(b"[", start), head.find(b">", start)
    if 0 <= inner < end and (found := _DOCTYPE_ENDS.search(head, inner)):
        end = found.end() - 1
    if start < 0 or end < 0:
        return head
    lines = head.count(b"\n", start, end)
    return head[:start] + b"\n" * lines + head[end + 1 :]


def elements(stream: IO[bytes], *, names: frozenset[str]) -> Iterator[Element]:
    """Raises ``UnreadableError`` where the file breaks off or is no XML; what came before counts."""
    collector = _Collector(names)
    block = _without_doctype(stream.read(_HEAD_BYTES))
    while True:
        following = stream.read(BLOCK_BYTES)
        failure: UnreadableError | None = None
        try:
            collector.feed(block, is_last=not following)
        except expat.ExpatError as error:
            failure = UnreadableError(Code.DAMAGED, detail=str(error))
        except UnreadableError as error:
            failure = error
        yield from collector.done
        collector.done.clear()
        if failure is not None:
            raise failure
        if not following:
            return
        block = following
