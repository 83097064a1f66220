"""A bounded window into one field of one record (contract 3.6, decision 19).

Offsets count Unicode code points. The slice is cut by the database, so a field of a megabyte never
enters this process; a search by ``q`` and the check of a quote do read the value, because only the
analyser can find the one and only the whole can prove the other.

A string is windowed as it is, and a searched list of strings as search reads it, so that the
offsets of evidence hold. Any other value is windowed over its JSON, with its type and size.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import orjson

from evidence import limits
from evidence.access.record_parts import FieldSlice, field_slices
from evidence.access.records import VisibleRecords
from evidence.declarations.authorship import Origin, origin
from evidence.declarations.declaration import Field
from evidence.declarations.values import field_text
from evidence.errors import (
    AmbiguousConnection,
    FieldNotFound,
    NotFound,
    QueryNotFound,
    UnknownField,
)
from evidence.search.analysis.graphemes import grapheme_ceil, grapheme_floor
from evidence.search.analysis.highlighter import find

Status = Literal["verified", "moved", "changed", "absent"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A quote, or the sha256 of the whole field when it was read, or both."""

    quote: str | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """``found_at`` is where the quote stands now; ``field_changed`` compares the hashes.

    - verified: the quote stands where it was (anywhere, where no offset was given), or, without
      a quote, the field is unchanged;
    - moved: it stands elsewhere;
    - changed: it is gone, or there was none to look for, and the field has changed;
    - absent: the field never held it.
    """

    status: Status
    found_at: int | None
    field_sha256: str
    field_changed: bool | None


def judged(text: str, expected: Expectation, *, at: int | None) -> Verdict:
    """What has become of ``expected`` in ``text``; ``at`` is where the quote was."""
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    changed = None if expected.sha256 is None else expected.sha256.lower() != sha256
    if expected.quote is None:
        return Verdict("changed" if changed else "verified", None, sha256, changed)
    if at is not None and text.startswith(expected.quote, at):
        return Verdict("verified", at, sha256, changed)
    found = text.find(expected.quote)
    if found < 0:
        return Verdict("changed" if changed else "absent", None, sha256, changed)
    return Verdict("verified" if at is None else "moved", found, sha256, changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest:
    """Either an offset, or a text to find and the context to show around it.

    ``below`` leads from the field to a value inside it; ``expected`` asks for a quote to be checked.
    """

    field: str
    limit_chars: int
    below: Sequence[str] = ()
    offset_chars: int | None = None
    q: str | None = None
    occurrence: int = 1
    before_chars: int | None = None
    after_chars: int | None = None
    expected: Expectation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldWindow:
    """``[start_chars, end_chars)`` of a value of ``total_chars`` code points."""

    connection_id: str
    json_type: str
    size_bytes: int
    text: str
    start_chars: int
    limit_chars: int
    total_chars: int
    origin: Origin
    match: tuple[int, int] | None = None
    verdict: Verdict | None = None

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

    @property
    def blob_id(self) -> str | None:
        """The blob that the value refers to, where it is a reference and wholly in the window."""
        if self.json_type != "object" or not self.complete:
            return None
        blob_id = orjson.loads(self.text).get("blob_id")
        return blob_id if isinstance(blob_id, str) else None


def read(visible: VisibleRecords, record_key: str, request: WindowRequest) -> FieldWindow:
    """The window, in one query; raises the typed refusals of contract 3.6."""
    field = _declared(visible, request.field)
    if "\x00" in record_key:  # which PostgreSQL refuses
        raise NotFound(next_step="Search, or list the stream, to find ids.")
    whole = request.q is not None or request.expected is not None
    found = _found(visible, record_key, field, request, whole=whole)
    match = None
    start, length = request.offset_chars or 0, request.limit_chars
    if request.q is not None:
        match = _match(visible, record_key, found, request)
        start, length = _context(match, request)
    window = _cut(found, start, length, match, origin=_origin(visible, found))
    if request.expected is None:
        return window
    return replace(window, verdict=judged(found.text, request.expected, at=request.offset_chars))


def sha256_of(text: str) -> str:
    """What names a state of a field, in evidence and in ``expect_sha256``."""
    return hashlib.sha256(text.encode()).hexdigest()


def _declared(visible: VisibleRecords, name: str) -> Field:
    try:
        return visible.shown_field(name, param="field")
    except UnknownField as refusal:  # here a field is read, so one that is not there is not found
        found = FieldNotFound(message=refusal.message, param="field", **refusal.extra)
        raise found from refusal


def _found(
    visible: VisibleRecords,
    record_key: str,
    field: Field,
    request: WindowRequest,
    *,
    whole: bool,
) -> FieldSlice:
    """The value, or the part of it that the window can reach."""
    start, length = 0, None
    if not whole:
        start = max(0, (request.offset_chars or 0) - limits.WINDOW_GRAPHEME_CHARS)
        length = (request.offset_chars or 0) - start + request.limit_chars
        length += limits.WINDOW_GRAPHEME_CHARS
    below = request.below
    found = _one(
        visible,
        record_key,
        field_slices(visible, record_key, field, below=below, start=start, length=length),
    )
    if found.json_type == "array" and field.lexical and not below:
        raw = _one(visible, record_key, field_slices(visible, record_key, field))
        text = field_text(orjson.loads(raw.text))
        return replace(raw, text=text, total_chars=len(text), size_bytes=len(text.encode()))
    return found


def _match(
    visible: VisibleRecords, record_key: str, found: FieldSlice, request: WindowRequest
) -> tuple[int, int]:
    languages = visible.facts_of[found.connection_id].languages
    match = find(found.text, request.q or "", languages=languages, occurrence=request.occurrence)
    if match is None:
        refusal = QueryNotFound(
            param="q", next_step="Read from offset_chars=0, or search with other words."
        )
        raise refusal.telling_of(found.connection_id, record_key)
    return match


def _context(match: tuple[int, int], request: WindowRequest) -> tuple[int, int]:
    """Where the window starts and how long it is; the match sits in its middle by default."""
    found = match[1] - match[0]
    if request.before_chars is None and request.after_chars is None:
        room = max(0, request.limit_chars - found)
        return max(0, match[0] - room // 2), request.limit_chars
    before = min(request.before_chars or 0, match[0])
    wanted = before + found + (request.after_chars or 0)
    return match[0] - before, min(wanted, request.limit_chars)


def _origin(visible: VisibleRecords, found: FieldSlice) -> Origin:
    identities = visible.facts_of[found.connection_id].identities
    return origin(found.authorship, roles=visible.stream.authorship, identities=identities)


def _cut(
    found: FieldSlice,
    start: int,
    length: int,
    match: tuple[int, int] | None,
    *,
    origin: Origin,
) -> FieldWindow:
    """The window with both ends moved by little, so that no grapheme breaks."""
    low = min(max(0, start - found.start_chars), len(found.text))
    low = grapheme_floor(found.text, low, limit=limits.WINDOW_GRAPHEME_CHARS)
    high = min(len(found.text), max(0, start - found.start_chars) + length)
    high = grapheme_ceil(found.text, high, limit=limits.WINDOW_GRAPHEME_CHARS)
    return FieldWindow(
        connection_id=found.connection_id,
        json_type=found.json_type or "null",
        size_bytes=found.size_bytes,
        text=found.text[low:high],
        start_chars=min(found.start_chars + low, found.total_chars),
        limit_chars=length,
        total_chars=found.total_chars,
        origin=origin,
        match=match,
    )


def _one(visible: VisibleRecords, record_key: str, found: list[FieldSlice]) -> FieldSlice:
    if not found:
        raise NotFound(next_step="Search, or list the stream, to find ids.")
    if len(found) > 1:
        holding = {each.connection_id for each in found}
        raise AmbiguousConnection(
            [each for each in visible.candidates() if each["connection_id"] in holding],
            message="The record exists under more than one connection; name one by connection_id.",
        )
    if found[0].json_type is None:
        refusal = FieldNotFound(param="field", next_step="Read the record to see its fields.")
        raise refusal.telling_of(found[0].connection_id, record_key)
    return found[0]
