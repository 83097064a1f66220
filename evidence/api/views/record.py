"""Read or delete a record, read part of a long field, or verify a quote: `…/{id}[/field-window]`."""

from collections import deque
from typing import Any, ClassVar

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence import limits
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.api import envelopes
from evidence.api.base_views import Answer, Described, GrantedView
from evidence.api.query_parameters import (
    clamp,
    parse_expand,
    parse_fields,
    target_connection_id,
)
from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.erasure import erase_record, run_erasure
from evidence.errors import (
    InvalidFieldPath,
    InvalidWindow,
    NotFound,
)
from evidence.ledger.entries import DisclosedItem
from evidence.page_cutter import json_size
from evidence.parameters import DeleteRecords, GetRecord, ReadFieldWindow
from evidence.read import blobs, field_windows, records
from evidence.read.field_windows import ExpectedText, FieldWindow, QuoteCheck
from evidence.write import record_erasure
from evidence.write.erasure_orders import ErasureScope, create_erasure

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
        data = records.project_fields(record, fields)
        blob = blobs.stored_blob(visible, record, data) if BLOB_REFERENCE in data else None
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
            return records.get(visible, record_id)
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
        asked = self._window()
        window = field_windows.read(visible, record_id, asked)
        body = _window_body(visible, window, record_key=record_id)
        body["field"] = {"path": self.query.field, **body["field"]}
        body["url"] = self.url.partition("?")[0]
        item = DisclosedItem(window.connection_id, stream, record_id, frozenset({asked.field}))
        return Answer(
            envelopes.with_links_and_meta(body, self_link=self.url, warnings=self.warnings),
            [item],
        )

    def _window(self) -> field_windows.WindowRequest:
        """Return what the parameters ask for. Raises InvalidWindow for those that exclude each other."""
        query = self.query
        field, below = _path(query.field)
        if query.q is not None and query.offset_chars is not None:
            raise InvalidWindow(message="Give q or offset_chars, not both.", param="offset_chars")
        for name in ("before_chars", "after_chars", "occurrence"):
            if query.q is None and getattr(query, name) is not None:
                raise InvalidWindow(message=f"{name} requires q.", param=name)
        verifies = query.quote is not None or query.expect_sha256 is not None
        return field_windows.WindowRequest(
            field=field,
            below=below,
            limit_chars=clamp(
                "limit_chars",
                query.limit_chars or limits.WINDOW_DEFAULT_CHARS,
                most=limits.WINDOW_MAX_CHARS,
                warnings=self.warnings,
            ),
            offset_chars=query.offset_chars,
            q=query.q,
            occurrence=query.occurrence or 1,
            before_chars=query.before_chars,
            after_chars=query.after_chars,
            expected=ExpectedText(query.quote, query.expect_sha256) if verifies else None,
        )


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
