"""A bounded window into one text field of one record (contract 3.6, decision 19).

Offsets count Unicode code points. The slice is cut by the database, so a field of a megabyte never
enters this process; a search by ``q`` does read the text, because only the analyser can find it.
"""

from dataclasses import dataclass, replace

import orjson

from evidence import limits
from evidence.access.fields import FieldSlice, field_slices
from evidence.access.rows import VisibleRecords
from evidence.analyser.finding import find
from evidence.analyser.graphemes import grapheme_ceil, grapheme_floor
from evidence.declarations.types import Field
from evidence.declarations.values import field_text
from evidence.refusals import (
    AmbiguousConnection,
    FieldNotFound,
    FieldNotText,
    NotFound,
    QueryNotFound,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest:
    """Either an offset, or a text to find and the context to show around it."""

    field: str
    limit_chars: int
    offset_chars: int = 0
    q: str | None = None
    occurrence: int = 1
    before_chars: int | None = None
    after_chars: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldWindow:
    """``[start_chars, end_chars)`` of a field of ``total_chars`` code points."""

    connection_id: str
    field: Field
    text: str
    start_chars: int
    limit_chars: int
    total_chars: int
    match: tuple[int, int] | None = None

    @property
    def end_chars(self) -> int:
        return self.start_chars + len(self.text)

    @property
    def complete(self) -> bool:
        return self.start_chars == 0 and self.end_chars == self.total_chars

    @property
    def next_offset_chars(self) -> int | None:
        return self.end_chars if self.end_chars < self.total_chars else None

    @property
    def previous_offset_chars(self) -> int | None:
        return max(0, self.start_chars - self.limit_chars) if self.start_chars else None


def read(visible: VisibleRecords, record_key: str, request: WindowRequest) -> FieldWindow:
    """The window, in one query; raises the typed refusals of contract 3.6."""
    field = visible.shown_field(request.field, param="field")
    if request.q is not None:
        return _around_match(visible, record_key, field, request)
    margin = limits.WINDOW_GRAPHEME_CHARS
    start = max(0, request.offset_chars - margin)
    length = request.offset_chars - start + request.limit_chars + margin
    found = _one(
        visible, field, field_slices(visible, record_key, field, start=start, length=length)
    )
    if found.json_type == "array":
        found = _list_text(visible, record_key, field)
    return _cut(field, found, request.offset_chars, request.limit_chars, None)


def _around_match(
    visible: VisibleRecords, record_key: str, field: Field, request: WindowRequest
) -> FieldWindow:
    whole = _one(visible, field, field_slices(visible, record_key, field, start=0, length=None))
    if whole.json_type == "array":
        whole = _list_text(visible, record_key, field)
    languages = next(
        facts.languages
        for facts in visible.connections
        if facts.connection_id == whole.connection_id
    )
    match = find(whole.text, request.q or "", languages=languages, occurrence=request.occurrence)
    if match is None:
        raise QueryNotFound(
            param="q", next_step="Read from offset_chars=0, or search with other words."
        )
    start, length = _context(match, request)
    return _cut(field, whole, start, length, match)


def _list_text(visible: VisibleRecords, record_key: str, field: Field) -> FieldSlice:
    """A list of texts as search reads it, a line each, so that the offsets of evidence agree."""
    raw = _one(visible, field, field_slices(visible, record_key, field, start=0, length=None))
    text = field_text(orjson.loads(raw.text))
    return replace(raw, start_chars=0, text=text, total_chars=len(text))


def _context(match: tuple[int, int], request: WindowRequest) -> tuple[int, int]:
    """Where the window starts and how long it is; the match sits in its middle by default."""
    found = match[1] - match[0]
    if request.before_chars is None and request.after_chars is None:
        room = max(0, request.limit_chars - found)
        return max(0, match[0] - room // 2), request.limit_chars
    before = min(request.before_chars or 0, match[0])
    wanted = before + found + (request.after_chars or 0)
    return match[0] - before, min(wanted, request.limit_chars)


def _cut(
    field: Field, found: FieldSlice, start: int, length: int, match: tuple[int, int] | None
) -> FieldWindow:
    """The window with both ends moved outward or inward by little, so that no grapheme breaks."""
    low = min(max(0, start - found.start_chars), len(found.text))
    low = grapheme_floor(found.text, low, limit=limits.WINDOW_GRAPHEME_CHARS)
    high = min(len(found.text), max(0, start - found.start_chars) + length)
    high = grapheme_ceil(found.text, high, limit=limits.WINDOW_GRAPHEME_CHARS)
    return FieldWindow(
        connection_id=found.connection_id,
        field=field,
        text=found.text[low:high],
        start_chars=min(found.start_chars + low, found.total_chars),
        limit_chars=length,
        total_chars=found.total_chars,
        match=match,
    )


def _one(visible: VisibleRecords, field: Field, found: list[FieldSlice]) -> FieldSlice:
    if not found:
        raise NotFound(next_step="Search, or list the stream, to find ids.")
    if len(found) > 1:
        holding = {each.connection_id for each in found}
        raise AmbiguousConnection(
            [each for each in visible.candidates() if each["connection_id"] in holding],
            message="The record exists under more than one connection; name one by connection_id.",
        )
    value = found[0]
    if value.json_type is None:
        raise FieldNotFound(param="field", next_step="Read the record to see its fields.")
    searched_list = value.json_type == "array" and field.lexical
    if value.json_type != "string" and not searched_list:
        raise FieldNotText(
            message=f"The field holds a {value.json_type} of {value.size_bytes} bytes as JSON.",
            param="field",
            field_type=value.json_type,
            size_bytes=value.size_bytes,
            next_step="Read the record with fields naming this field.",
        )
    return value
