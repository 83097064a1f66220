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
_DOCTYPE = re.compile(rb"<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL)


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
        self._depth = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def feed(self, block: bytes, *, is_last: bool) -> None:
        self._parser.Parse(block, is_last)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._open is not None:
            self._depth += 1
            if self._depth == 1 and len(self._open.children) < 1000:
                self._open.children.append((name, attributes))
        elif name in self._wanted:
            at = self._parser.CurrentByteIndex
            self._open = Element(name, attributes, [], self._parser.CurrentLineNumber, at)

    def _end(self, name: str) -> None:
        if self._open is None:
            return
        if self._depth:
            self._depth -= 1
            return
        size = self._parser.CurrentByteIndex - self._open.size
        self.done.append(self._open._replace(size=size))
        self._open = None


def _lines_alone(found: re.Match[bytes]) -> bytes:
    """Lines keep their numbers."""
    return b"\n" * found[0].count(b"\n")


def elements(stream: IO[bytes], *, names: frozenset[str]) -> Iterator[Element]:
    """Raises ``UnreadableError`` where the file breaks off or is no XML; what came before counts."""
    collector = _Collector(names)
    block = _DOCTYPE.sub(_lines_alone, stream.read(_HEAD_BYTES), count=1)
    while True:
        following = stream.read(BLOCK_BYTES)
        failure: expat.ExpatError | None = None
        try:
            collector.feed(block, is_last=not following)
        except expat.ExpatError as error:
            failure = error
        yield from collector.done
        collector.done.clear()
        if failure is not None:
            raise UnreadableError(Code.DAMAGED, detail=str(failure)) from failure
        if not following:
            return
        block = following
