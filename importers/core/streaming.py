"""Stream the elements of large XML, iCalendar and vCard files in bounded memory."""

import binascii
import codecs
import re
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple, TypeVar
from xml.parsers import expat

from importers.core.results import ReceiptCode, UnreadableError
from importers.core.text import decode, to_utf8

T = TypeVar("T")


FILE_MAX_BYTES = 128 * 1024 * 1024
COMPONENT_MAX_BYTES = 1024 * 1024
COMPONENT_MAX_LINES = 20_000


class Component(NamedTuple):
    """A component of an iCalendar or vCard file.

    ``line`` counts from 1. ``text`` has no embedded media, and is None where it is too long.
    """

    name: str
    line: int
    text: bytes | None
    size: int


_BEGIN = re.compile(rb"^BEGIN:([A-Za-z0-9-]+)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_EMBEDDED_MEDIA = re.compile(
    rb"^(?:[\w-]+\.)?(?:PHOTO|LOGO|SOUND|KEY|ATTACH)[;:][^\n]*\n(?:[ \t][^\n]*\n)*",
    re.MULTILINE | re.IGNORECASE,
)
_QUOTED_PRINTABLE = re.compile(
    rb"^([\w-]++)(?=[^:\n]*?;(?:ENCODING=)?QUOTED-PRINTABLE[;:])([^:\n]*+):"
    rb"([^\n]*(?:\n(?:(?<==\n)|(?<==\r\n)|(?=[ \t]))[^\n]*)*)",
    re.MULTILINE | re.IGNORECASE,
)
_CHARSET = re.compile(rb";CHARSET=\"?([\w.:-]+)", re.IGNORECASE)
_FOLD = re.compile(rb"\r?\n[ \t]")


def iter_components(content: bytes, *, names: frozenset[str]) -> Iterator[Component]:
    """Yield the outermost components with these names.

    A component without an END ends where the next one of its name begins.
    """
    position = line = line_position = 0
    while begin := _BEGIN.search(content, position):
        name = begin[1].decode("ascii").upper()
        position = begin.end()
        if name not in names:
            continue
        end = _component_end(content, name, position)
        line += content.count(b"\n", line_position, begin.start())
        line_position = begin.start()
        text = _EMBEDDED_MEDIA.sub(b"", content[begin.start() : end])
        is_short = len(text) <= COMPONENT_MAX_BYTES and text.count(b"\n") <= COMPONENT_MAX_LINES
        yield Component(name, line + 1, text if is_short else None, end - begin.start())
        position = end


def _component_end(content: bytes, name: str, position: int) -> int:
    pattern = rb"^(BEGIN|END):" + name.encode() + rb"[ \t]*\r?$"
    match = re.compile(pattern, re.MULTILINE | re.IGNORECASE).search(content, position)
    if match is None:
        return len(content)
    return match.start() if match[1].upper() == b"BEGIN" else match.end()


def close_component(text: str, name: str) -> str:
    """Add the END that is missing from a truncated component."""
    text = text.rstrip()
    return text if text.upper().endswith(f"END:{name}") else f"{text}\r\nEND:{name}"


def unfold(text: bytes) -> bytes:
    """Join the lines of each property; programs fold them also within a character."""
    return _FOLD.sub(b"", text)


def decode_quoted_printable(text: bytes) -> bytes:
    """Decode the values of vCalendar 1.0 that are quoted-printable, in their own charset."""
    return _QUOTED_PRINTABLE.sub(_decoded_property, text)


def _decoded_property(match: re.Match[bytes]) -> bytes:
    charset = _CHARSET.search(match[2])
    content = binascii.a2b_qp(unfold(re.sub(rb"=\r?\n", b"", match[3])))
    lines = decode(content, charset[1].decode() if charset else None).splitlines()
    return match[1] + b":" + "\\n".join(lines).encode() + b"\n"


def folded_to_utf8(content: bytes) -> bytes:
    """Return iCalendar or vCard text in any charset as UTF-8 with line feeds."""
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        unfold(content).decode()
    except UnicodeDecodeError:
        return to_utf8(content)
    return content if b"\0" not in content else to_utf8(content)


def property_value(text: bytes, name: str) -> str | None:
    """Return the value of the first property of this name, unfolded and without parameters."""
    match = re.search(
        rb"^" + name.encode() + rb"(?:;[^:\r\n]*)?:(.*?)\r?$",
        unfold(text),
        re.MULTILINE | re.IGNORECASE,
    )
    return match[1].decode("utf-8", "replace").strip() if match else None


READ_SIZE = 256 * 1024
_DOCTYPE_MAX_BYTES = 1024 * 1024
ELEMENT_MAX_BYTES = 1024 * 1024
ELEMENT_MAX_DEPTH = 100
_MAX_CHILDREN = 1000
_INTERNAL_SUBSET_END = re.compile(rb"\]\s*>")


class XmlElement(NamedTuple):
    """An element with the names and attributes of its children. ``size`` is in bytes."""

    name: str
    attributes: dict[str, str]
    children: list[tuple[str, dict[str, str]]]
    line: int
    size: int


class _ElementCollector:
    """Collects the outermost elements with these names."""

    def __init__(self, names: frozenset[str]) -> None:
        self.elements: list[XmlElement] = []
        self._names = names
        self._open: XmlElement | None = None
        self._depth_in_element = self._depth = self._bytes_fed = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def feed(self, block: bytes, is_last: bool, /) -> None:  # noqa: FBT001 - as expat has it
        """Parse a block. Raises ``UnreadableError`` when an element or token is too large.

        expat keeps an incomplete token in memory and parses it again with each block.
        """
        self._bytes_fed += len(block)
        self._parser.Parse(block, is_last)
        # An open element holds its start position in ``size``.
        start = self._parser.CurrentByteIndex if self._open is None else self._open.size
        if self._bytes_fed - start > ELEMENT_MAX_BYTES + READ_SIZE and not is_last:
            raise UnreadableError(ReceiptCode.TOO_LARGE)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > ELEMENT_MAX_DEPTH:
            raise UnreadableError(ReceiptCode.MALFORMED, detail="nested too deeply")
        if self._open is not None:
            self._depth_in_element += 1
            if self._depth_in_element == 1 and len(self._open.children) < _MAX_CHILDREN:
                self._open.children.append((name, attributes))
        elif name in self._names:
            position, line = self._parser.CurrentByteIndex, self._parser.CurrentLineNumber
            self._open = XmlElement(name, attributes, [], line, position)

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._open is None:
            return
        if self._depth_in_element:
            self._depth_in_element -= 1
            return
        size = self._parser.CurrentByteIndex - self._open.size
        self.elements.append(self._open._replace(size=size))
        self._open = None


def remove_doctype(head: bytes) -> bytes:
    """Remove the document type, with its entities, but keep its line breaks."""
    start = head.find(b"<!DOCTYPE")
    subset, end = head.find(b"[", start), head.find(b">", start)
    if 0 <= subset < end and (match := _INTERNAL_SUBSET_END.search(head, subset)):
        end = match.end() - 1
    if start < 0 or end < 0:
        return head
    return head[:start] + b"\n" * head.count(b"\n", start, end) + head[end + 1 :]


def iter_elements(stream: IO[bytes], *, names: frozenset[str]) -> Iterator[XmlElement]:
    """Yield the elements with these names.

    Raises ``UnreadableError`` at damage, after the elements before it.
    """
    collector = _ElementCollector(names)
    return iter_collected(stream, collector.feed, collector.elements)


def iter_collected(
    stream: IO[bytes], parse: Callable[[bytes, bool], object], found: list[T]
) -> Iterator[T]:
    """Yield what ``parse`` adds to ``found`` from each block; its flag marks the last block.

    Raises ``UnreadableError`` at damage, after what was found before it.
    """
    block = remove_doctype(stream.read(_DOCTYPE_MAX_BYTES))
    while True:
        next_block = stream.read(READ_SIZE)
        failure: UnreadableError | None = None
        try:
            parse(block, not next_block)
        except expat.ExpatError as error:
            failure = UnreadableError(ReceiptCode.DAMAGED, detail=str(error))
        except UnreadableError as error:
            failure = error
        yield from found
        found.clear()
        if failure is not None:
            raise failure
        if not next_block:
            return
        block = next_block
