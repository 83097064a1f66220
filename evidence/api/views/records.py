"""``GET`` and ``DELETE /v1/streams/{stream}/records``."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from evidence import limits
from evidence.access import cursors
from evidence.access.rows import Position, VisibleRecord, VisibleRecords
from evidence.api import budget, envelopes, expansions, waiting
from evidence.api.base import GrantedView
from evidence.api.disclosing import told_in_numbers
from evidence.api.params import CONNECTION, PROJECTION
from evidence.api.views import changes, deleting
from evidence.ledger.entries import Shown
from evidence.reading import records
from evidence.refusals import InvalidArgument


class RecordsView(GrantedView):
    owner_methods: ClassVar = {"DELETE": deleting.PARAMETERS}
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
        | expansions.PARAMETERS
    )
    extent: Sequence[tuple[str, str]] | None = None
    """The records that the window discloses, where it was asked for."""
    counted: Sequence[tuple[str, str]] = ()
    """The records that the count discloses."""

    def get(self, request: Request, stream: str) -> Response:
        self._check_subject()
        if self.query.has("changes_since"):
            return changes.answer(self, stream)
        waiting.asked(self)
        visible = self.gate.stream(stream, connection_id=self.query.connection_id())
        where = records.chosen(visible, self.query.nested("filter"))
        order = self.query.choice("order", "asc", "desc", default="") or None
        descending = records.direction(visible, order=order, sort=self.query.text("sort"))
        fields = self._selected_fields(visible)
        wanted = expansions.asked(self.query, self.gate, visible)
        bounds = budget.asked(self.query)
        query = self._query(visible, descending=descending)
        page = records.page(
            visible,
            limit=self.query.bounded("limit", default=limits.PAGE_DEFAULT, most=limits.PAGE_MAX),
            descending=descending,
            after=self._after(query),
            where=where,
        )
        data = [_record(visible, record, fields) for record in page.records]
        counted = self._count(visible, where, page)
        extent = self._window(visible, where)
        longest = cursors.length("records", query=query, place=_longest(page))
        frame = budget.frame(self.query, cursor=longest, meta=[counted, extent])
        rows = expansions.beside(data, page.records, wanted)
        shown = budget.fitted(rows, bounds, frame, more=page.has_more)
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
        shown = [
            *shown,
            *(Shown(one, visible.stream.name, key, self.filtered_by) for one, key in self.counted),
        ]
        return shown or told_in_numbers(visible, fields=self.filtered_by)

    def delete(self, request: Request, stream: str) -> Response:
        return deleting.delete_stream(self, stream)

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

    def _selected_fields(self, visible: VisibleRecords) -> frozenset[str] | None:
        """Return the fields that `fields` or `view` select."""
        names, view = self.query.names("fields"), self.query.text("view")
        return records.selected(visible, fields=names, view=view)

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

    def _count(
        self, visible: VisibleRecords, where: Any, page: records.Page
    ) -> dict[str, Any] | None:
        kind = self.query.choice("count", "none", "estimated", "exact", default="none")
        if kind == "none":
            return None
        total, self.counted = records.counted(visible, where, page)
        return {"kind": "exact", "value": total}

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
