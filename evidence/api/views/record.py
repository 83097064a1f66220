"""Read or delete a record, read part of a long field, or verify a quote: `…/{id}[/field-window]`.

Offsets count Unicode code points. The database cuts the slice, so that large fields never enter this
process; only ``q`` and the check of a quote read the whole value (contract 3.6, decision 19).

The window of a searchable list of strings is over its search text, so that the offsets of excerpts
apply. The window of any other value that is not a string is over its JSON.
"""

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import orjson
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence import limits
from evidence.access.record_details import FieldSlice, field_slices, stored_blob
from evidence.access.records import (
    VisibleRecord,
    VisibleRecords,
    ambiguous_record,
    get_record,
    project_fields,
)
from evidence.api import envelopes
from evidence.api.base_views import (
    Answer,
    Described,
    GrantedView,
    clamp,
    parse_expand,
    parse_fields,
    target_connection_id,
)
from evidence.declarations.declaration import (
    BLOB_REFERENCE,
    Field,
    Origin,
    determine_origin,
    field_text,
)
from evidence.erasure import erase_record, run_erasure
from evidence.errors import (
    FieldNotFound,
    FieldNotText,
    InvalidFieldPath,
    InvalidWindow,
    NotFound,
    QueryNotFound,
    UnknownField,
)
from evidence.ledger.entries import DisclosedItem
from evidence.page_cutter import grapheme_ceil, grapheme_floor, json_size
from evidence.parameters import DeleteRecords, GetRecord, ReadFieldWindow
from evidence.search.analysis.highlighter import count_occurrences, find_occurrence
from evidence.write import record_erasure
from evidence.write.erasure_orders import ErasureScope, create_erasure

Status = Literal["verified", "moved", "changed", "absent"]


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


def check_quote(text: str, asked: ReadFieldWindow) -> QuoteCheck:
    """Check a quote, the SHA-256 of the whole field as it was read, or both."""
    sha256, at = hashlib.sha256(text.encode()).hexdigest(), asked.offset_chars
    changed = None if asked.expect_sha256 is None else asked.expect_sha256.lower() != sha256
    if asked.quote is None:
        return QuoteCheck("changed" if changed else "verified", None, sha256, changed)
    if at is not None and text.startswith(asked.quote, at):
        return QuoteCheck("verified", at, sha256, changed)
    offset = text.find(asked.quote)
    if offset < 0:
        return QuoteCheck("changed" if changed else "absent", None, sha256, changed)
    return QuoteCheck("verified" if at is None else "moved", offset, sha256, changed)


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


def read_window(
    visible: VisibleRecords,
    record_key: str,
    asked: ReadFieldWindow,
    *,
    name: str,
    below: Sequence[str],
    limit: int,
) -> FieldWindow:
    """Return the window by offset, or around the nth occurrence of ``q``. One query.

    ``below`` is the path from the field ``name`` to a value inside. Raises the errors of contract 3.6.
    """
    field = _readable_field(visible, name)
    if "\x00" in record_key:  # PostgreSQL rejects NUL
        raise NotFound(next_step="Search, or list the stream, to find ids.")
    verifies = asked.quote is not None or asked.expect_sha256 is not None
    match, start, length = None, asked.offset_chars or 0, limit
    span = None if verifies or asked.q is not None else (start, limit)
    piece = _load_slice(visible, record_key, field, below, span)
    if piece.json_type in ("number", "boolean") and not verifies:
        place = (piece.connection_id, visible.stream.name, record_key)
        raise FieldNotText(param="field").disclosing(place, fields=[name])
    if asked.q is not None:
        match = _find_query(visible, record_key, piece, asked, name)
        start, length = _window_bounds(match, asked, limit)
    window = _make_window(piece, start, length, match, origin=_origin(visible, piece))
    return replace(window, verdict=check_quote(piece.text, asked)) if verifies else window


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
    below: Sequence[str],
    span: tuple[int, int] | None,
) -> FieldSlice:
    """Return the value, or the part that a window of this start and length can include."""
    start, length = 0, None
    if span is not None:
        start = max(0, span[0] - limits.WINDOW_GRAPHEME_CHARS)
        length = span[0] - start + span[1] + limits.WINDOW_GRAPHEME_CHARS
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
    visible: VisibleRecords, record_key: str, piece: FieldSlice, asked: ReadFieldWindow, name: str
) -> tuple[int, int]:
    languages = visible.connection_for[piece.connection_id].languages
    occurrence = asked.occurrence or 1
    match = find_occurrence(piece.text, asked.q or "", languages=languages, occurrence=occurrence)
    if match is None:
        error = QueryNotFound(
            param="q", next_step="Read from offset_chars=0, or search with other words."
        )
        count = count_occurrences(piece.text, asked.q or "", languages=languages)
        if count:
            error = QueryNotFound(
                message=f"q occurs {count} times; occurrence {occurrence} is beyond them.",
                param="occurrence",
                next_step=f"Pass an occurrence from 1 to {count}.",
            )
        place = (piece.connection_id, visible.stream.name, record_key)
        raise error.disclosing(place, fields=[name])
    return match


def _window_bounds(match: tuple[int, int], asked: ReadFieldWindow, limit: int) -> tuple[int, int]:
    """Return start and length of the window; by default, the match is in its middle."""
    match_chars = match[1] - match[0]
    if asked.before_chars is None and asked.after_chars is None:
        room = max(0, limit - match_chars)
        return max(0, match[0] - room // 2), limit
    before = min(asked.before_chars or 0, match[0])
    length = before + match_chars + (asked.after_chars or 0)
    return match[0] - before, min(length, limit)


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


MAX_DEPTH = 32


ERASED_BY = "a program with an owner token"


def delete_record(view: GrantedView, stream: str, record_id: str) -> Response:
    if "\x00" in record_id:
        raise NotFound(message="A record id cannot contain a NUL character.")
    connection_id, now = _connection_id(view, stream), timezone.now()
    if _deletion(view).suppress:
        erase_record(
            connection_id, stream=stream, record_key=record_id, owner_id=view.scope.owner_id,
            by=ERASED_BY, now=now,
        )  # fmt: skip
    else:
        record_erasure.delete_record(
            connection_id, stream=stream, record_key=record_id, suppress=False, now=now
        )
    return Response(status=204)


def delete_stream(view: GrantedView, stream: str) -> Response:
    connection_id, now = _connection_id(view, stream), timezone.now()
    if _deletion(view).suppress:
        made = create_erasure(
            ErasureScope.STREAM, owner_id=view.scope.owner_id, by=ERASED_BY, now=now,
            connection_id=connection_id, stream=stream,
        )  # fmt: skip
        deque(run_erasure(made, now=now), maxlen=0)
    else:
        record_erasure.delete_stream(connection_id, stream=stream, now=now)
    return Response(status=204)


def _connection_id(view: GrantedView, stream: str) -> str:
    """Return the id of the addressed connection, after checking that it has the stream."""
    connection_id = target_connection_id(view.scope, _deletion(view))
    view.gate.stream(stream, connection_id=connection_id)
    return connection_id


def _deletion(view: GrantedView) -> DeleteRecords:
    assert isinstance(view.query, DeleteRecords)  # noqa: S101 - what owner_methods says
    return view.query


class RecordView(GrantedView):
    route = "record"
    described: ClassVar = {"GET": Described("Record"), "DELETE": Described(status="204")}
    owner_methods: ClassVar = {"DELETE": DeleteRecords}
    parameters = GetRecord
    query: GetRecord
    or_window = False
    """Whether the path may also be a field-window request without `field`."""

    def get(self, request: Request, stream: str, record_id: str) -> Answer:
        """Get a record."""
        visible = self.gate.stream(stream, connection_id=self.query.connection_id)
        fields = parse_fields(visible, self.query)
        expansions = parse_expand(self.query, self.gate, visible)
        record = self._one(visible, record_id)
        data = project_fields(record, fields)
        blob = stored_blob(visible, record, data) if BLOB_REFERENCE in data else None
        if blob is not None:
            reference = data[BLOB_REFERENCE] | {"size_bytes": blob.size_bytes}
            data = {**data, BLOB_REFERENCE: reference}
        body = envelopes.record_body(visible, record, data)
        body |= envelopes.main_text_member(visible, data)
        data_bytes = json_size(body["data"])
        bodies = envelopes.with_expanded([body], [record], expansions)
        order = envelopes.order_of_fields(visible)
        body = envelopes.fit_item(bodies[0], envelopes.parse_list_form(self.query), order=order)
        related = {each.relation.name: each.child for each in expansions}
        return Answer(
            envelopes.with_links_and_meta(
                body | {"record_json_bytes": data_bytes},
                self_link=self.url,
                warnings=self.warnings,
            ),
            envelopes.record_items(visible, body, related=related),
        )

    def _one(self, visible: VisibleRecords, record_id: str) -> VisibleRecord:
        try:
            return get_record(visible, record_id)
        except NotFound as error:
            if not self.or_window:
                raise
            raise InvalidFieldPath(
                message="field takes a top-level field or a JSON Pointer that starts with one.",
                param="field",
            ) from error

    def delete(self, request: Request, stream: str, record_id: str) -> Response:
        """Delete a record."""
        return delete_record(self, stream, record_id)


class FieldWindowView(GrantedView):
    """Read a window of a text field, or verify a quote."""

    route = "field window"
    described: ClassVar = {"GET": Described("FieldWindow")}
    parameters = ReadFieldWindow
    invalid_parameter = InvalidWindow
    missing_parameter = InvalidFieldPath
    query: ReadFieldWindow

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Call the record view instead if every parameter is one of its own.

        A record key may end with `/field-window`. Exactly one of the two views runs and is charged.
        """
        if _is_window_request(request):
            return super().dispatch(request, *args, **kwargs)
        view = RecordView.as_view(or_window=True)
        key = f"{kwargs['record_id']}/field-window"
        return view(request, stream=kwargs["stream"], record_id=key)

    def get(self, request: Request, stream: str, record_id: str) -> Answer:
        visible = self.gate.stream(stream, connection_id=self.query.connection_id)
        name, below = _path(self.query.field)
        self._check_combination()
        limit = clamp(
            "limit_chars",
            self.query.limit_chars or limits.WINDOW_DEFAULT_CHARS,
            most=limits.WINDOW_MAX_CHARS,
            warnings=self.warnings,
        )
        window = read_window(visible, record_id, self.query, name=name, below=below, limit=limit)
        body = _window_body(visible, window, record_key=record_id)
        body["field"] = {"path": self.query.field, **body["field"]}
        body["url"] = self.url.partition("?")[0]
        item = DisclosedItem(window.connection_id, stream, record_id, frozenset({name}))
        return Answer(
            envelopes.with_links_and_meta(body, self_link=self.url, warnings=self.warnings),
            [item],
        )

    def _check_combination(self) -> None:
        """Raise InvalidWindow for parameters that exclude each other."""
        query = self.query
        if query.q is not None and query.offset_chars is not None:
            raise InvalidWindow(message="Give q or offset_chars, not both.", param="offset_chars")
        for name in ("before_chars", "after_chars", "occurrence"):
            if query.q is None and getattr(query, name) is not None:
                raise InvalidWindow(message=f"{name} requires q.", param=name)


def _is_window_request(request: HttpRequest) -> bool:
    known = RecordView.owner_methods.get(str(request.method), RecordView.parameters).model_fields
    try:
        return any(name.partition("[")[0] not in known for name in request.GET)
    except SuspiciousOperation:
        return True  # too many parameters: this view rejects them like any other


def _path(path: str) -> tuple[str, list[str]]:
    """Parse a top-level field, or a JSON Pointer (RFC 6901) whose first token is one."""
    if not path.startswith("/"):
        tokens = [path]
    else:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]
    if not tokens[0] or len(tokens) > MAX_DEPTH:
        raise InvalidFieldPath(
            message="field takes a top-level field or a JSON Pointer that starts with one.",
            param="field",
        )
    return tokens[0], tokens[1:]


def _window_body(
    visible: VisibleRecords, window: FieldWindow, *, record_key: str
) -> dict[str, Any]:
    """Return the envelope of a field window (contract 3.6)."""
    window_members: dict[str, Any] = {
        "text": window.text,
        "start_chars": window.start_chars,
        "end_chars": window.end_chars,
        "limit_chars": window.limit_chars,
        "total_chars": window.total_chars,
        "complete": window.complete,
        "has_more": window.next_offset_chars is not None,
        "next_offset_chars": window.next_offset_chars,
        "previous_offset_chars": window.previous_offset_chars,
    }
    if window.match is not None:
        window_members["match_start_chars"], window_members["match_end_chars"] = window.match
    field: dict[str, Any] = {"type": window.json_type, "size_bytes": window.size_bytes}
    field |= {} if window.item_count is None else {"item_count": window.item_count}
    if window.json_type != "string":
        field["media_type"] = "application/json"
    if window.blob_id is not None:
        field["blob"] = {
            "blob_id": window.blob_id,
            "fetch_url": envelopes.blob_url(window.blob_id, window.connection_id),
        }
    body: dict[str, Any] = {
        "object": "field_window",
        "stream": visible.stream.name,
        "record_id": record_key,
        "connection_id": window.connection_id,
        "connector_key": visible.source.connector_key,
        "origin": window.origin,
        "field": field,
        "window": window_members,
    }
    return (
        body if window.verdict is None else body | {"verification": _verification(window.verdict)}
    )


def _verification(verdict: QuoteCheck) -> dict[str, Any]:
    return {
        "status": verdict.status,
        "field_sha256": verdict.field_sha256,
        **({} if verdict.found_at is None else {"found_at_chars": verdict.found_at}),
        **({} if verdict.field_changed is None else {"field_changed": verdict.field_changed}),
    }
