"""Read JSON of any shape and size: stream its items in bounded memory, and treat values of the wrong type as missing."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, cast

import ijson

from importers.core.export_files import HEAD_BYTES, ExportFile
from importers.core.results import ParsedItem, ReceiptCode, UnreadableError
from importers.core.text import one_line, replace_unstorable

Json = Mapping[str, Any]
ParseNode = Callable[[Json], ParsedItem]

_ASSIGNMENT = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*(?:window\.[\w.]{1,200}\s*=\s*)?")
"""What may precede JSON in a file: a byte order mark, or the assignment of a script."""


def json_object(node: Json, name: str) -> Json:
    """Return a member that is an object, and an empty object for any other value."""
    member = node.get(name)
    return member if isinstance(member, dict) else {}


def json_objects(node: Json, name: str) -> list[Json]:
    """Return the objects of a member that is a list."""
    member = node.get(name)
    return [item for item in member if isinstance(item, dict)] if isinstance(member, list) else []


def json_line(node: Json, *names: str) -> str | None:
    """Return the first of these members that is a text with visible characters, as one line."""
    for name in names:
        if isinstance(value := node.get(name), str) and (
            line := one_line(replace_unstorable(value))
        ):
            return line
    return None


def json_text(node: Json, *names: str) -> str:
    """Return the first of these members that is a text, or an empty text."""
    texts = (value for name in names if isinstance(value := node.get(name), str) and value.strip())
    return replace_unstorable(next(texts, ""))


def json_integer(node: Json, name: str) -> int | None:
    """Return a whole number that is not negative, also one that is written as text."""
    value = node.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return cast("int", value) if is_number and 0 <= cast("int", value) < 2**63 else None


@contextmanager
def open_json(file: ExportFile) -> Iterator[IO[bytes]]:
    """Open a file behind a byte order mark or the assignment of a script."""
    with file.open() as stream:
        yield cast("IO[bytes]", _JsonStream(stream))


class _JsonStream:
    """A stream without what precedes the JSON."""

    def __init__(self, stream: IO[bytes]) -> None:
        head = stream.read(HEAD_BYTES)
        match = _ASSIGNMENT.match(head)
        self._head = head[match.end() :] if match else head
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        if head and size >= 0:
            self._head = head[size:]
            return head[:size]
        return head + self._stream.read(size)

    def tell(self) -> int:
        return self._stream.tell() - len(self._head)


def iter_nodes(file: ExportFile, prefixes: tuple[str, ...]) -> Iterator[tuple[Any, int, str]]:
    """Yield each value at one of these prefixes, its size in bytes, and its prefix.

    Raises ``UnreadableError`` at damage, and for a file without such a value.
    """
    position, is_known = 0, False
    parents = {prefix.rpartition(".")[0] for prefix in prefixes}
    with open_json(file) as stream:
        for prefix, event, value in iter_json_events(stream, is_item=prefixes.__contains__):
            if event == ITEM:
                size, position = max(0, stream.tell() - position), max(position, stream.tell())
                yield value, size, prefix
            is_known = is_known or event == ITEM or (event == "start_array" and prefix in parents)
    if not is_known:
        raise UnreadableError(ReceiptCode.MALFORMED)


def parse_node(node: Any, parse: ParseNode) -> ParsedItem:
    """Raises ``UnreadableError`` for a value that is no object."""
    if not isinstance(node, dict):
        raise UnreadableError(ReceiptCode.MALFORMED)
    return parse(node)


def head_has(file: ExportFile, *members: bytes) -> bool:
    """Return whether a JSON file begins with an object or array that has these member names."""
    head = file.head
    match = _ASSIGNMENT.match(head)
    start = head[match.end() :][:1] if match else b""
    return start in (b"{", b"[") and all(b'"%s"' % member in head for member in members)


ITEM = "item"
JSON_ITEM_MAX_BYTES = 8 * 1024 * 1024
"""A parsed item takes up to twenty times as much memory."""
JSON_MAX_DEPTH = 50
_STARTS = frozenset({"start_map", "start_array"})
_ENDS = frozenset({"end_map", "end_array"})
_INCOMPLETE = _STARTS | {"map_key"}

Event = tuple[str, str, Any]


def iter_json_events(stream: IO[bytes], *, is_item: Callable[[str], bool]) -> Iterator[Event]:
    """Yield (prefix, ITEM, value) for values whose prefix ``is_item``, and other events of ijson.

    Raises ``UnreadableError`` at damage, and for an item that is too large or nested too deeply.
    """
    limited, item_prefix = _LimitedStream(stream), ""
    builder: ijson.ObjectBuilder | None = None
    try:
        for prefix, event, value in ijson.parse(_limit_depth(ijson.basic_parse(limited))):
            if builder is None:
                if not is_item(prefix) or event in _ENDS:
                    limited.start_item()
                    yield prefix, event, value
                    continue
                builder, item_prefix = ijson.ObjectBuilder(), prefix
            builder.event(event, value)
            if prefix == item_prefix and event not in _INCOMPLETE:
                limited.start_item()
                yield prefix, ITEM, builder.value
                builder = None
    except ijson.JSONError as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error


def iter_json_items(stream: IO[bytes], *, prefix: str) -> Iterator[tuple[Any, int]]:
    """Yield each value at this prefix with its size in bytes. Raises as ``iter_json_events``."""
    position = 0
    for _, event, value in iter_json_events(stream, is_item=prefix.__eq__):
        if event == ITEM:
            size, position = max(0, stream.tell() - position), max(position, stream.tell())
            yield value, size


class _LimitedStream:
    """Limits how many bytes are read for one item."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._item_bytes = 0

    def start_item(self) -> None:
        self._item_bytes = 0

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        self._item_bytes += len(block)
        if self._item_bytes > JSON_ITEM_MAX_BYTES:
            raise UnreadableError(ReceiptCode.TOO_LARGE)
        return block


def _limit_depth(events: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Limit nesting before ijson.parse keeps the path of every level in memory."""
    depth = 0
    for event in events:
        if event[0] in _STARTS:
            depth += 1
            if depth > JSON_MAX_DEPTH:
                raise UnreadableError(ReceiptCode.MALFORMED, detail="nested too deeply")
        elif event[0] in _ENDS:
            depth -= 1
        yield event
