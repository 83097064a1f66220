"""The items of a large JSON file, one at a time, however deep or long somebody has made them."""

from collections.abc import Callable, Iterator
from typing import IO, Any

import ijson

from evidence.importing.codes import Code
from evidence.importing.items import UnreadableError

ITEM = "item"
ITEM_BYTES = 8 * 1024 * 1024
"""Of JSON; it takes up to twenty times as much in memory."""
DEPTH = 50
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
            if depth > DEPTH:
                raise UnreadableError(Code.MALFORMED, detail="nested too deeply")
        elif event[0] in _ENDS:
            depth -= 1
        yield event
