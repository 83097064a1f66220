"""``GET`` and ``DELETE /v1/streams/{stream}/records``."""

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence import limits
from evidence.access import cursors
from evidence.access.records import Position, VisibleRecord, VisibleRecords
from evidence.api import envelopes, expansion, long_poll, size_budget
from evidence.api.base_views import GrantedView
from evidence.api.disclosed_records import told_in_numbers
from evidence.api.item_sizes import size
from evidence.api.query_parameters import CONNECTION, PROJECTION
from evidence.api.target_connection import owned_connection
from evidence.api.views import changes
from evidence.declarations.declaration import BLOB_REFERENCE
from evidence.erasure import erase_record, go_on
from evidence.errors import InvalidArgument, InvalidFieldPath, NotFound
from evidence.ledger.entries import Shown
from evidence.reading import blobs, records
from evidence.storing.erasure_orders import Of, order
from evidence.storing.record_erasure import erase, erase_stream

BY = "a program with an owner token"
PARAMETERS = CONNECTION | {"suppress"}


def delete_record(view: GrantedView, stream: str, record_id: str) -> Response:
    if "\x00" in record_id:
        raise NotFound(message="No record has such an id.")
    connection_id, now = _connection_id(view, stream), timezone.now()
    if _suppress(view):
        erase_record(
            connection_id, stream=stream, record_key=record_id, owner_id=view.scope.owner_id,
            by=BY, now=now,
        )  # fmt: skip
    else:
        erase(connection_id, stream=stream, record_key=record_id, suppress=False, now=now)
    return Response(status=204)


def delete_stream(view: GrantedView, stream: str) -> Response:
    connection_id, now = _connection_id(view, stream), timezone.now()
    if _suppress(view):
        made = order(
            Of.STREAM, owner_id=view.scope.owner_id, by=BY, now=now,
            connection_id=connection_id, stream=stream,
        )  # fmt: skip
        deque(go_on(made, now=now), maxlen=0)
    else:
        erase_stream(connection_id, stream=stream, now=now)
    return Response(status=204)


def _connection_id(view: GrantedView, stream: str) -> str:
    """The connection meant, of the owner's own, once it is certain that it has such a stream."""
    connection_id = owned_connection(view.scope, view.query)
    view.gate.stream(stream, connection_id=connection_id)
    return connection_id


def _suppress(view: GrantedView) -> bool:
    return view.query.choice("suppress", "true", "false", default="true") == "true"


class RecordsView(GrantedView):
    owner_methods: ClassVar = {"DELETE": PARAMETERS}
    parameters = (
        CONNECTION
        | PROJECTION
        | {
            "limit",
            "cursor",
            "order",
            "sort",
            "filter",
            "count",
            "window",
            "max_bytes",
            "max_line_bytes",
            "subject_id",
        }
        | {"changes_since", "wait"}
        | expansion.PARAMETERS
    )
    extent: Sequence[tuple[str, str]] | None = None
    """The records that the window discloses, where it was asked for."""

    def get(self, request: Request, stream: str) -> Response:
        self._check_subject()
        if self.query.has("changes_since"):
            return changes.answer(self, stream)
        long_poll.asked(self)
        visible = self.gate.stream(stream, connection_id=self.query.connection_id())
        where = records.chosen(visible, self.query.nested("filter"))
        order = self.query.choice("order", "asc", "desc", default="") or None
        descending = records.direction(visible, order=order, sort=self.query.text("sort"))
        fields = records.selected(
            visible, fields=self.query.names("fields"), view=self.query.text("view")
        )
        wanted = expansion.asked(self.query, self.gate, visible)
        bounds = size_budget.asked(self.query)
        query = self._query(visible, descending=descending)
        page = records.page(
            visible,
            limit=self.query.bounded("limit", default=limits.PAGE_DEFAULT, most=limits.PAGE_MAX),
            descending=descending,
            after=self._after(query),
            where=where,
        )
        data = [_record(visible, record, fields) for record in page.records]
        counted, extent = self._count(visible, where), self._window(visible, where)
        longest = cursors.length("records", query=query, place=_longest(page))
        frame = size_budget.frame(self.query, cursor=longest, meta=[counted, extent])
        rows = expansion.beside(data, page.records, wanted)
        shown = size_budget.fitted(rows, bounds, frame, more=page.has_more)
        body = self._body(stream, page, shown, query)
        cursor = body.get("next_cursor")
        return Response(
            envelopes.finished(
                body,
                self_link=self.query.path,
                next_link=self.query.link(cursor=cursor) if cursor else None,
                warnings=self.query.warnings,
                count=counted,
                meta=extent,
            )
        )

    @override
    def shown_in(self, response: HttpResponseBase) -> Sequence[Shown]:
        visible = self.gate.stream(self.kwargs["stream"], connection_id=self.query.connection_id())
        shown = super().shown_in(response)
        if self.extent is not None:
            fields = self.filtered_by | {str(visible.stream.consent_time_field)}
            shown = [*shown, *told_in_numbers(visible, fields=fields)]
            shown += [Shown(one, visible.stream.name, key, fields) for one, key in self.extent]
        return shown or told_in_numbers(visible, fields=self.filtered_by)

    def delete(self, request: Request, stream: str) -> Response:
        return delete_stream(self, stream)

    def _check_subject(self) -> None:
        if self.query.text("subject_id") not in (None, self.scope.owner_id):
            raise InvalidArgument(
                message="The token speaks for another owner than that.", param="subject_id"
            )

    def _body(
        self,
        stream: str,
        page: records.Page,
        shown: list[dict[str, Any]],
        query: dict[str, Any],
    ) -> dict[str, Any]:
        """The list, with a cursor behind the last record shown when there are more."""
        has_more = page.has_more or len(shown) < len(page.records)
        body: dict[str, Any] = {
            "object": "list",
            "url": f"/v1/streams/{stream}/records",
            "has_more": has_more,
            "data": shown,
        }
        if has_more:
            place = _place(page.records[len(shown) - 1].position)
            body["next_cursor"] = cursors.seal(
                "records", scope=self.scope, query=query, place=place
            )
        return body

    def _query(self, visible: VisibleRecords, *, descending: bool) -> dict[str, Any]:
        """What a cursor is bound to."""
        return {
            "stream": visible.stream.name,
            "connection_id": sorted(facts.connection_id for facts in visible.connections),
            "filter": sorted(
                ["/".join(keys), value] for keys, value in self.query.nested("filter")
            ),
            "order": "desc" if descending else "asc",
            "by": visible.stream.cursor_field if visible.in_time_order else None,
        }

    def _after(self, query: dict[str, Any]) -> Position | None:
        cursor = self.query.text("cursor")
        if cursor is None:
            return None
        place = cursors.unseal(cursor, "records", scope=self.scope, query=query)
        return Position(place["s"], place["r"], place["c"])

    def _count(self, visible: VisibleRecords, where: Any) -> dict[str, Any] | None:
        kind = self.query.choice("count", "none", "estimated", "exact", default="none")
        if kind == "none":
            return None
        return {"kind": "exact", "value": records.count(visible, where)}

    def _window(self, visible: VisibleRecords, where: Any) -> dict[str, Any] | None:
        if self.query.choice("window", "none", "exact", default="none") == "none":
            return None
        extent = records.window(visible, where)
        self.extent = extent.witnesses
        return {
            "window": {
                "total": extent.total,
                "earliest_at": envelopes.instant(extent.earliest_at),
                "latest_at": envelopes.instant(extent.latest_at),
            }
        }


def _record(
    visible: VisibleRecords, record: VisibleRecord, fields: frozenset[str] | None
) -> dict[str, Any]:
    return envelopes.record(visible, record, records.projected(record, fields))


def _longest(page: records.Page) -> object:
    """The place whose cursor would be the longest of all on the page."""
    places = [_place(record.position) for record in page.records]
    return max(places, key=lambda place: sum(map(len, filter(None, place.values()))), default=None)


def _place(position: Position) -> dict[str, Any]:
    return {"s": position.sort_key, "r": position.record_key, "c": position.connection_id}


class RecordView(GrantedView):
    owner_methods: ClassVar = {"DELETE": PARAMETERS}
    parameters = CONNECTION | PROJECTION | {"max_bytes"} | expansion.PARAMETERS
    or_window = False
    """Whether the key ends like the route of a field window, so the window's field may be missing."""

    def get(self, request: Request, stream: str, record_id: str) -> Response:
        visible = self.gate.stream(stream, connection_id=self.query.connection_id())
        fields = records.selected(
            visible, fields=self.query.names("fields"), view=self.query.text("view")
        )
        wanted = expansion.asked(self.query, self.gate, visible)
        record = self._one(visible, record_id)
        data = records.projected(record, fields)
        blob = blobs.kept_for(visible, record, data)
        if blob is not None:
            reference = data[BLOB_REFERENCE] | {"size_bytes": blob.size_bytes}
            data = {**data, BLOB_REFERENCE: reference}
        body = envelopes.record(visible, record, data)
        whole = size(body["data"])
        bodies = expansion.beside([body], [record], wanted)
        body = size_budget.fitted_alone(bodies[0], size_budget.asked(self.query))
        return Response(
            envelopes.finished(
                body | {"record_json_bytes": whole},
                self_link=self.query.path,
                warnings=self.query.warnings,
            )
        )

    def _one(self, visible: VisibleRecords, record_id: str) -> VisibleRecord:
        try:
            return records.one(visible, record_id)
        except NotFound as refusal:
            if not self.or_window:
                raise
            raise InvalidFieldPath(
                message="field names a top-level field, or is a JSON Pointer that starts with one.",
                param="field",
            ) from refusal

    def delete(self, request: Request, stream: str, record_id: str) -> Response:
        return delete_record(self, stream, record_id)
