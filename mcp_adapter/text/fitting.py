"""Making a text fit: the same object drawn with less and less room per item."""

from collections.abc import Callable, Iterable
from typing import Any

from mcp_adapter import ids
from mcp_adapter.json_text import dumps, wire_size
from mcp_adapter.labels import clipped

BAREST = -1
_ROOMS = (2_400, 1_200, 600, 400, 280, 200, 140, 100, 60, 30)
_STRING_LEAST = 24
_CUT_SHOWN = 6
_LONGEST_SHOWN_ID = 480
SOURCES_BYTES = 240
"""What a page sets aside to say which connections its items came through."""
_LABEL_CHARS = 60


def roomiest(draw: Callable[[int], dict[str, Any]], *, items: int, most: int) -> str:
    """The text with about the most room per item that takes at most `most` bytes as serialized.

    With no room an item is its handle and what belongs to it; if even that is too much, only what
    `draw` keeps for room below nothing. What is left beside the handles is shared out among the
    items, and that share tried first.
    """
    best = dumps(draw(0))
    spare = most - wire_size(best)
    if spare < 0:
        return dumps(draw(BAREST))
    share = spare // max(items, 1)
    for room in _ROOMS:
        if room > share * 3 // 2 or spare <= 0:
            continue
        text = dumps(draw(room))
        if wire_size(text) <= most:
            return text
    return best


def mix(counted: Iterable[tuple[dict[str, str], int]], *, unit: str) -> dict[str, Any]:
    """`{"sources": …}`: which connections gave how many items, those with most first, as many as
    there is room for, and how many items came through others."""
    counted = list(counted)
    if len(counted) < 2:
        return {}
    shown: list[dict[str, Any]] = []
    others = sum(n for _, n in counted)
    for named, number in counted:
        label = {name: clipped(text, _LABEL_CHARS) for name, text in named.items()}
        entry: dict[str, Any] = {**label, unit: number}
        if wire_size(dumps([*shown, entry])) > SOURCES_BYTES - 60:
            break
        shown.append(entry)
        others -= number
    return {"sources": shown, **({f"{unit}_of_others": others} if others else {})}


def shown_id(handle: str) -> dict[str, Any]:
    """A handle is shown whole; only one longer than any that this server makes is cut, and so
    marked."""
    if len(handle) <= _LONGEST_SHOWN_ID:
        return {"id": handle}
    return {"id": handle[:200], "id_cut": "too long to show whole; see the structured output"}


class Preview:
    """The fields of a record, measured once so that they can be drawn with any room."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        sizes = {name: _length(value) + len(name) + 4 for name, value in fields.items()}
        # Short fields come before long ones, so that a body does not crowd out who wrote it.
        self._short_first = sorted(sizes.items(), key=lambda pair: pair[1])
        descriptors = any(_is_descriptor(value) for value in fields.values())
        self._whole = None if descriptors else sum(sizes.values())

    def within(self, room: int) -> dict[str, Any]:
        """`{"data": …, "cut": [names]}`: as much of the record as fits into `room` characters.

        Whatever is shortened or left out is named in `cut`.
        """
        if self._whole is not None and self._whole <= room:
            return {"data": self._fields} if self._fields else {}
        shown: dict[str, Any] = {}
        cut = set()
        for name, size in self._short_first:
            value = self._fields[name]
            if size <= room and not _is_descriptor(value):
                shown[name] = value
                room -= size
                continue
            cut.add(name)
            if (start := _start(value, room - len(name) - 8)) is not None:
                shown[name] = start
                room -= len(name) + 8 + len(start)
        ordered = {name: shown[name] for name in self._fields if name in shown}
        named = _named([name for name in self._fields if name in cut])
        return {**({"data": ordered} if ordered else {}), **named}


def preview(fields: dict[str, Any], *, room: int) -> dict[str, Any]:
    """As much of a record as fits, where it is drawn once."""
    return Preview(fields).within(room)


def omissions(record: dict[str, Any]) -> dict[str, Any]:
    """The fields that REST left out of a record with hundreds of them."""
    count = record.get("omitted_field_count", 0)
    return {"omitted_fields": count, "read": "fetch(id, fields) reads them"} if count else {}


def _length(value: Any) -> int:
    """About how many characters the value takes as JSON."""
    return len(value) + 2 if isinstance(value, str) else len(dumps(value))


def _start(value: Any, room: int) -> str | None:
    text = value.get("preview") if _is_descriptor(value) else value
    if not isinstance(text, str) or room < _STRING_LEAST:
        return None
    return clipped(text, room) if len(text) > room else f"{text}…"


def _is_descriptor(value: Any) -> bool:
    return isinstance(value, dict) and value.get("object") == "field_window_read"


def _named(cut: list[str]) -> dict[str, Any]:
    if len(cut) <= _CUT_SHOWN:
        return {"cut": cut} if cut else {}
    return {"cut": cut[:_CUT_SHOWN], "cut_more": len(cut) - _CUT_SHOWN}


def expanded(record: dict[str, Any], *, room: int) -> dict[str, Any]:
    """`{"expanded": {relation: …}}`, or nothing where the record was not expanded."""
    relations = record.get("expanded")
    if not isinstance(relations, dict):
        return {}
    return {"expanded": {name: _children(found, room) for name, found in relations.items()}}


def _children(found: Any, room: int) -> dict[str, Any] | None:
    if not isinstance(found, dict):
        return None
    if found.get("object") != "list":
        return _child(found, room)
    share = room // max(len(found["data"]), 1)
    shown = [_child(child, share) for child in found["data"]]
    return {"records": shown, "has_more": found.get("has_more", False)}


def _child(record: dict[str, Any], room: int) -> dict[str, Any]:
    ref = ids.RecordRef(
        record.get("connection_id"), str(record.get("stream", "")), str(record.get("id", ""))
    )
    return {"id": ids.handle(ref), **preview(record.get("data") or {}, room=room)}
