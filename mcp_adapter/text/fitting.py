"""Shorten the items of a result, expanded records included, until the text fits its budget."""

from collections.abc import Callable, Iterable
from typing import Any

from evidence import record_ids
from mcp_adapter.json_text import dumps, wire_size
from mcp_adapter.labels import clip, is_window_descriptor

HANDLE_ONLY = -1
"""Passed to a renderer instead of a number of characters: keep the handles and little else."""
_CHARS_PER_ITEM = (2_400, 1_200, 600, 400, 280, 200, 140, 100, 60, 30)
_MIN_STRING_CHARS = 24
_MAX_CUT_NAMES = 6
_MAX_ID_CHARS = 480
SOURCES_BYTES = 240
"""Bytes of a page reserved for the count of items by connection."""
_LABEL_CHARS = 60


def fit_items(render: Callable[[int], dict[str, Any]], *, items: int, max_bytes: int) -> str:
    """Return the text with the most characters per item that takes at most `max_bytes`.

    `render` takes the characters per item: 0 for handles and what belongs to them, HANDLE_ONLY if
    even those exceed the budget. The search starts at an equal share of the free bytes.
    """
    handles = dumps(render(0))
    free_bytes = max_bytes - wire_size(handles)
    if free_bytes < 0:
        return dumps(render(HANDLE_ONLY))
    share = free_bytes // max(items, 1)
    for max_chars in _CHARS_PER_ITEM:
        if max_chars > share * 3 // 2 or free_bytes <= 0:
            continue
        text = dumps(render(max_chars))
        if wire_size(text) <= max_bytes:
            return text
    return handles


def count_by_source(counts: Iterable[tuple[dict[str, str], int]], *, unit: str) -> dict[str, Any]:
    """Return `{"sources": …}`: how many items each connection gave, or {} for fewer than two.

    `counts` has the largest first. Connections that do not fit SOURCES_BYTES are summed up.
    """
    counts = list(counts)
    if len(counts) < 2:
        return {}
    sources: list[dict[str, Any]] = []
    others = sum(count for _, count in counts)
    for members, count in counts:
        label = {name: clip(text, _LABEL_CHARS) for name, text in members.items()}
        entry: dict[str, Any] = {**label, unit: count}
        if wire_size(dumps([*sources, entry])) > SOURCES_BYTES - 60:
            break
        sources.append(entry)
        others -= count
    return {"sources": sources, **({f"{unit}_of_others": others} if others else {})}


def id_members(record_id: str) -> dict[str, Any]:
    """Return the id of an item. An id longer than any of this server is cut and marked as cut."""
    if len(record_id) <= _MAX_ID_CHARS:
        return {"id": record_id}
    return {"id": record_id[:200], "id_cut": "too long to show whole; see the structured output"}


class Preview:
    """The fields of a record, measured once to be rendered with different limits."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        sizes = {name: _json_chars(value) + len(name) + 4 for name, value in fields.items()}
        # Short fields first, so that a long body does not crowd out its author.
        self._short_first = sorted(sizes.items(), key=lambda pair: pair[1])
        has_descriptor = any(is_window_descriptor(value) for value in fields.values())
        self._total_chars = None if has_descriptor else sum(sizes.values())

    def fit(self, max_chars: int) -> dict[str, Any]:
        """Return `{"data": fields, "cut": names}` with about `max_chars` characters of fields.

        `cut` names the fields that are shortened or left out.
        """
        if self._total_chars is not None and self._total_chars <= max_chars:
            return {"data": self._fields} if self._fields else {}
        fitted: dict[str, Any] = {}
        cut = set()
        for name, size in self._short_first:
            value = self._fields[name]
            if size <= max_chars and not is_window_descriptor(value):
                fitted[name] = value
                max_chars -= size
                continue
            cut.add(name)
            if (start := _text_start(value, max_chars - len(name) - 8)) is not None:
                fitted[name] = start
                max_chars -= len(name) + 8 + len(start)
        data = {name: fitted[name] for name in self._fields if name in fitted}
        cut_members = _cut_members([name for name in self._fields if name in cut])
        return {**({"data": data} if data else {}), **cut_members}


def omitted_fields(record: dict[str, Any]) -> dict[str, Any]:
    """Return the number of fields that REST omitted from a record, or {} if none."""
    count = record.get("omitted_field_count", 0)
    return {"omitted_fields": count, "read": "fetch(id, fields) reads them"} if count else {}


def _json_chars(value: Any) -> int:
    """Return about how many characters the value takes as JSON."""
    return len(value) + 2 if isinstance(value, str) else len(dumps(value))


def _text_start(value: Any, max_chars: int) -> str | None:
    text = value.get("preview") if is_window_descriptor(value) else value
    if not isinstance(text, str) or max_chars < _MIN_STRING_CHARS:
        return None
    return clip(text, max_chars) if len(text) > max_chars else f"{text}…"


def _cut_members(names: list[str]) -> dict[str, Any]:
    if len(names) <= _MAX_CUT_NAMES:
        return {"cut": names} if names else {}
    return {"cut": names[:_MAX_CUT_NAMES], "cut_more": len(names) - _MAX_CUT_NAMES}


def expanded_records(record: dict[str, Any], *, max_chars: int) -> dict[str, Any]:
    """Return `{"expanded": {relation: …}}` with about `max_chars` each, or {} if not expanded."""
    relations = record.get("expanded")
    if not isinstance(relations, dict):
        return {}
    return {
        "expanded": {name: _related(value, max_chars) for name, value in relations.items()},
    }


def _related(value: Any, max_chars: int) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    if value.get("object") != "list":
        return _child(value, max_chars)
    share = max_chars // max(len(value["data"]), 1)
    children = [_child(child, share) for child in value["data"]]
    return {"records": children, "has_more": value.get("has_more", False)}


def _child(record: dict[str, Any], max_chars: int) -> dict[str, Any]:
    ref = record_ids.RecordRef(
        record.get("connection_id"), str(record.get("stream", "")), str(record.get("id", ""))
    )
    return {"id": record_ids.format_id(ref), **Preview(record.get("data") or {}).fit(max_chars)}
