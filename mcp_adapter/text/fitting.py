"""Making a text fit: the same object drawn with less and less room per item."""

from collections.abc import Callable
from typing import Any

from mcp_adapter.json_text import dumps, wire_size
from mcp_adapter.labels import clipped

_ROOMS = (600, 400, 280, 200, 140, 100, 60, 30, 0)
_STRING_LEAST = 24
_CUT_SHOWN = 6
_LONGEST_SHOWN_ID = 480


def roomiest(draw: Callable[[int], dict[str, Any]], *, most: int) -> str:
    """The text with the most room per item that takes at most `most` bytes as serialized.

    With no room an item is its handle alone; if even that is too much the text comes back too
    large, and the page has to end earlier.
    """
    text = ""
    for room in _ROOMS:
        text = dumps(draw(room))
        if wire_size(text) <= most:
            return text
    return text


def shown_id(handle: str) -> dict[str, Any]:
    """A handle is shown whole; only one longer than any that this server makes is cut, and so
    marked."""
    if len(handle) <= _LONGEST_SHOWN_ID:
        return {"id": handle}
    return {"id": handle[:200], "id_cut": "too long to show whole; see the structured output"}


def preview(fields: dict[str, Any], *, room: int) -> dict[str, Any]:
    """`{"data": …, "cut": [names]}`: as much of a record as fits into `room` characters.

    Short fields come before long ones, so that a body does not crowd out who wrote it. Whatever is
    shortened or left out is named in `cut`.
    """
    sizes = {name: len(dumps(value)) + len(name) + 4 for name, value in fields.items()}
    shown: dict[str, Any] = {}
    for name in sorted(fields, key=sizes.__getitem__):
        if sizes[name] <= room and not _is_descriptor(fields[name]):
            shown[name] = fields[name]
            room -= sizes[name]
        elif (start := _start(fields[name], room - len(name) - 8)) is not None:
            shown[name] = start
            room -= len(name) + 8 + len(start)
    whole = {name for name in shown if shown[name] is fields[name]}
    cut = [name for name in fields if name not in whole]
    ordered = {name: shown[name] for name in fields if name in shown}
    return {**({"data": ordered} if ordered else {}), **_named(cut)}


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
