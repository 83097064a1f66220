"""Read a bounded window of one field and check quotes against it (contract 3.6, decision 19).

Offsets count Unicode code points. The database cuts the slice, so that large fields never enter this
process; only ``q`` and the check of a quote read the whole value.

The window of a searchable list of strings is over its search text, so that the offsets of excerpts
apply. The window of any other value that is not a string is over its JSON.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import orjson

from evidence import limits
from evidence.access.record_parts import FieldSlice, field_slices
from evidence.access.records import VisibleRecords
from evidence.declarations.declaration import Field
from evidence.declarations.roles import Origin, determine_origin, field_text
from evidence.errors import FieldNotFound, FieldNotText, NotFound, QueryNotFound, UnknownField
from evidence.page_cutter import grapheme_ceil, grapheme_floor
from evidence.read.records import ambiguous_record
from evidence.search.analysis.highlighter import count_occurrences, find_occurrence

Status = Literal["verified", "moved", "changed", "absent"]


@dataclass(frozen=True, slots=True)
class ExpectedText:
    """A quote, the SHA-256 of the whole field as it was read, or both."""

    quote: str | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class QuoteCheck:
    """The result of a quote check: ``found_at`` is the current offset of the quote.

    - verified: the quote is at its offset (anywhere without an offset) or, without a quote, the
      field is unchanged;
    - moved: the quote is elsewhere;
    - changed: the field has changed, and does not contain the quote or no quote was given;
    - absent: the field does not contain the quote.
    """

    status: Status
    found_at: int | None
    field_sha256: str
    field_changed: bool | None


def check_quote(text: str, expected: ExpectedText, *, at: int | None) -> QuoteCheck:
    """Check ``expected`` against ``text``; ``at`` is the earlier offset of the quote."""
    sha256 = sha256_of(text)
    changed = None if expected.sha256 is None else expected.sha256.lower() != sha256
    if expected.quote is None:
        return QuoteCheck("changed" if changed else "verified", None, sha256, changed)
    if at is not None and text.startswith(expected.quote, at):
        return QuoteCheck("verified", at, sha256, changed)
    offset = text.find(expected.quote)
    if offset < 0:
        return QuoteCheck("changed" if changed else "absent", None, sha256, changed)
    return QuoteCheck("verified" if at is None else "moved", offset, sha256, changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRequest:
    """A window by offset, or around the nth occurrence of ``q``.

    ``below`` is the path from the field to a value inside; ``expected`` is a quote to check.
    """

    field: str
    limit_chars: int
    below: Sequence[str] = ()
    offset_chars: int | None = None
    q: str | None = None
    occurrence: int = 1
    before_chars: int | None = None
    after_chars: int | None = None
    expected: ExpectedText | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldWindow:
    """Code points ``[start_chars, end_chars)`` of a value of ``total_chars``."""

    connection_id: str
    json_type: str
    size_bytes: int
    text: str
    start_chars: int
    limit_chars: int
    total_chars: int
    origin: Origin
    item_count: int | None = None
    match: tuple[int, int] | None = None
    verdict: QuoteCheck | None = None

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
        """The id of the referenced blob, if the window shows a whole blob reference."""
        if self.json_type != "object" or not self.complete:
            return None
        blob_id = orjson.loads(self.text).get("blob_id")
        return blob_id if isinstance(blob_id, str) else None


def read(visible: VisibleRecords, record_key: str, request: WindowRequest) -> FieldWindow:
    """Return the window, in one query. Raises the errors of contract 3.6."""
    field = _readable_field(visible, request.field)
    if "\x00" in record_key:  # PostgreSQL rejects NUL
        raise NotFound(next_step="Search, or list the stream, to find ids.")
    whole = request.q is not None or request.expected is not None
    piece = _load_slice(visible, record_key, field, request, whole=whole)
    if piece.json_type in ("number", "boolean") and request.expected is None:
        place = (piece.connection_id, visible.stream.name, record_key)
        raise FieldNotText(param="field").disclosing(place, fields=[request.field])
    match = None
    start, length = request.offset_chars or 0, request.limit_chars
    if request.q is not None:
        match = _find_query(visible, record_key, piece, request)
        start, length = _window_bounds(match, request)
    window = _make_window(piece, start, length, match, origin=_origin(visible, piece))
    if request.expected is None:
        return window
    return replace(
        window, verdict=check_quote(piece.text, request.expected, at=request.offset_chars)
    )


def sha256_of(text: str) -> str:
    """Return the digest of a field value, used in excerpts and ``expect_sha256``."""
    return hashlib.sha256(text.encode()).hexdigest()


def _readable_field(visible: VisibleRecords, name: str) -> Field:
    try:
        return visible.shown_field(name, param="field")
    except UnknownField as error:  # reading a missing field is 404, unlike filtering by one
        not_found = FieldNotFound(message=error.message, param="field", **error.extra)
        raise not_found from error


def _load_slice(
    visible: VisibleRecords,
    record_key: str,
    field: Field,
    request: WindowRequest,
    *,
    whole: bool,
) -> FieldSlice:
    """Return the value, or the part that the window can include."""
    start, length = 0, None
    if not whole:
        start = max(0, (request.offset_chars or 0) - limits.WINDOW_GRAPHEME_CHARS)
        length = (request.offset_chars or 0) - start + request.limit_chars
        length += limits.WINDOW_GRAPHEME_CHARS
    below = request.below
    piece = _require_single(
        visible,
        record_key,
        field,
        field_slices(visible, record_key, field, below=below, start=start, length=length),
    )
    if piece.json_type == "array" and field.lexical and not below:
        raw = _require_single(visible, record_key, field, field_slices(visible, record_key, field))
        text = field_text(orjson.loads(raw.text))
        return replace(raw, text=text, total_chars=len(text), size_bytes=len(text.encode()))
    return piece


def _find_query(
    visible: VisibleRecords, record_key: str, piece: FieldSlice, request: WindowRequest
) -> tuple[int, int]:
    languages = visible.connection_for[piece.connection_id].languages
    match = find_occurrence(
        piece.text, request.q or "", languages=languages, occurrence=request.occurrence
    )
    if match is None:
        error = QueryNotFound(
            param="q", next_step="Read from offset_chars=0, or search with other words."
        )
        count = count_occurrences(piece.text, request.q or "", languages=languages)
        if count:
            error = QueryNotFound(
                message=f"q occurs {count} times; occurrence {request.occurrence} is beyond them.",
                param="occurrence",
                next_step=f"Pass an occurrence from 1 to {count}.",
            )
        place = (piece.connection_id, visible.stream.name, record_key)
        raise error.disclosing(place, fields=[request.field])
    return match


def _window_bounds(match: tuple[int, int], request: WindowRequest) -> tuple[int, int]:
    """Return start and length of the window; by default, the match is in its middle."""
    match_chars = match[1] - match[0]
    if request.before_chars is None and request.after_chars is None:
        room = max(0, request.limit_chars - match_chars)
        return max(0, match[0] - room // 2), request.limit_chars
    before = min(request.before_chars or 0, match[0])
    length = before + match_chars + (request.after_chars or 0)
    return match[0] - before, min(length, request.limit_chars)


def _origin(visible: VisibleRecords, piece: FieldSlice) -> Origin:
    identities = visible.connection_for[piece.connection_id].identities
    return determine_origin(
        piece.authorship, roles=visible.stream.authorship, identities=identities
    )


def _make_window(
    piece: FieldSlice,
    start: int,
    length: int,
    match: tuple[int, int] | None,
    *,
    origin: Origin,
) -> FieldWindow:
    """Build the window, with both ends moved to grapheme boundaries."""
    low = min(max(0, start - piece.start_chars), len(piece.text))
    low = grapheme_floor(piece.text, low)
    high = min(len(piece.text), max(0, start - piece.start_chars) + length)
    high = grapheme_ceil(piece.text, high)
    return FieldWindow(
        connection_id=piece.connection_id,
        json_type=piece.json_type or "null",
        size_bytes=piece.size_bytes,
        text=piece.text[low:high],
        start_chars=min(piece.start_chars + low, piece.total_chars),
        limit_chars=length,
        total_chars=piece.total_chars,
        origin=origin,
        item_count=piece.item_count,
        match=match,
    )


def _require_single(
    visible: VisibleRecords, record_key: str, field: Field, pieces: list[FieldSlice]
) -> FieldSlice:
    if not pieces:
        raise NotFound(next_step="Search, or list the stream, to find ids.")
    if len(pieces) > 1:
        raise ambiguous_record(visible, record_key, [piece.connection_id for piece in pieces])
    if pieces[0].json_type is None:
        error = FieldNotFound(param="field", next_step="Read the record to see its fields.")
        place = (pieces[0].connection_id, visible.stream.name, record_key)
        raise error.disclosing(place, fields=[field.name])
    return pieces[0]
