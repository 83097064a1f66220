"""The items of a large JSON file, one at a time, however deep or long somebody has made them."""

import re
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple
from xml.parsers import expat

import ijson

from importers.core.results import Code, UnreadableError

ITEM = "item"
ITEM_BYTES = 8 * 1024 * 1024
"""Of JSON; it takes up to twenty times as much in memory."""
JSON_MAX_DEPTH = 50
_STARTS = frozenset({"start_map", "start_array"})
_ENDS = frozenset({"end_map", "end_array"})
_GO_ON = _STARTS | {"map_key"}

Event = tuple[str, str, Any]


def walk(stream: IO[bytes], *, is_item: Callable[[str], bool]) -> Iterator[Event]:
    """(prefix, ITEM, value) of whatever stands where ``is_item`` says so, and what ijson tells of
    the rest. Raises ``UnreadableError`` where the file cannot be read on."""
    metered, inside = _Metered(stream), ""
    builder: ijson.ObjectBuilder | None = None
    try:
        for prefix, event, value in ijson.parse(_shallow(ijson.basic_parse(metered))):
            if builder is None:
                if not is_item(prefix) or event in _ENDS:
                    metered.begin()
                    yield prefix, event, value
                    continue
                builder, inside = ijson.ObjectBuilder(), prefix
            builder.event(event, value)
            if prefix == inside and event not in _GO_ON:
                metered.begin()
                yield prefix, ITEM, builder.value
                builder = None
    except ijson.JSONError as error:
        raise UnreadableError(Code.DAMAGED, detail=str(error)[:80]) from error


class _Metered:
    """A stream of which no more is read than one item may take."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._read = 0

    def begin(self) -> None:
        self._read = 0

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        self._read += len(block)
        if self._read > ITEM_BYTES:
            raise UnreadableError(Code.TOO_LARGE)
        return block


def _shallow(events: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The same, before anybody keeps the path of each level."""
    depth = 0
    for event in events:
        if event[0] in _STARTS:
            depth += 1
            if depth > JSON_MAX_DEPTH:
                raise UnreadableError(Code.MALFORMED, detail="nested too deeply")
        elif event[0] in _ENDS:
            depth -= 1
        yield event


FILE_BYTES = 128 * 1024 * 1024
COMPONENT_MAX_BYTES = 1024 * 1024
BLOCK_LINES = 20_000


class Component(NamedTuple):
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


def iter_components(content: bytes, *, names: frozenset[str]) -> Iterator[Component]:
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
        is_short = len(text) <= COMPONENT_MAX_BYTES and text.count(b"\n") <= BLOCK_LINES
        yield Component(name, line + 1, text if is_short else None, size)
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


READ_SIZE = 256 * 1024
_HEAD_BYTES = 1024 * 1024
ELEMENT_BYTES = 1024 * 1024
ELEMENT_MAX_DEPTH = 100
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
        if self._fed - began > ELEMENT_BYTES + READ_SIZE and not is_last:
            raise UnreadableError(Code.TOO_LARGE)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._level += 1
        if self._level > ELEMENT_MAX_DEPTH:
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
        following = stream.read(READ_SIZE)
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
