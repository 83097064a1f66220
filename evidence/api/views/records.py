"""List the records of a stream, or what changed since a bookmark: `/v1/streams/{stream}/records` (contract 3.3)."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from evidence.access import crypto
from evidence.access.change_log import FeedItem
from evidence.access.record_counts import count_with_witnesses, read_window
from evidence.access.records import (
    Keyset,
    RecordOrder,
    RecordPage,
    VisibleRecord,
    VisibleRecords,
    parse_order,
    project_fields,
    read_page,
)
from evidence.access.sql import SQL
from evidence.api import envelopes
from evidence.api.base_views import (
    Answer,
    Described,
    GrantedView,
    future_warning,
    page_limit,
    parse_conditions,
    parse_expand,
    parse_fields,
    resolved,
    unmatched_warnings,
)
from evidence.api.views.record import delete_stream
from evidence.declarations.values import TIME_KEYS
from evidence.errors import CursorExpired, InvalidArgument, InvalidExpand, InvalidRequest
from evidence.ledger.entries import DisclosedItem
from evidence.parameters import DeleteRecords, ListRecords
from evidence.read import changes, filters
from evidence.read.changes import BEGINNING, ChangesPage, FollowedStream
from evidence.read.expansion import Expansion
from evidence.read.filters import has_own_time, time_filter

INCOMPATIBLE_PARAMETERS = (
    "after",
    "before",
    "sort",
    "order",
    "count",
    "window",
    "cursor",
    "filter",
)
"""Parameters that sort or filter. A feed has its own order, and no former values
are stored, so the server cannot know whether a filter matched at the bookmark."""


def changes_response(view: GrantedView, query: ListRecords, stream: str) -> Answer:
    """Return a page of changes and the bookmark to continue from.

    `fields` and `view` project records; a change in any granted field counts.
    """
    _check_combination(query)
    visible = view.gate.stream(stream, connection_id=query.connection_id)
    followed = FollowedStream(view.scope, visible, query.connection_id)
    fields = parse_fields(visible, query)
    form = envelopes.parse_list_form(query)
    page = _read(view, query, followed)
    rows = [_row(visible, change, fields) for change in page.items]
    shown = envelopes.fit_items(
        rows,
        form,
        envelopes.envelope_size(
            form,
            url=view.url,
            warnings=view.warnings,
            cursor=followed.max_encoded_length(page.bookmark, items=page.items),
        ),
        order=envelopes.order_of_fields(visible),
    )
    return _page_response(view, stream, followed, page, shown, compact=form.compact)


def _page_response(
    view: GrantedView,
    stream: str,
    followed: FollowedStream,
    page: ChangesPage,
    shown: envelopes.ItemPage,
    *,
    compact: bool,
) -> Answer:
    bookmark = followed.encode(page.bookmark_after(len(shown.items)), now=timezone.now())
    has_more = page.has_more or len(shown.items) < len(page.items)
    body = {
        "object": "list",
        "url": f"/v1/streams/{stream}/records",
        "has_more": has_more,
        "next_changes_since": bookmark,
        **shown.shared,
        "data": shown.items,
    }
    answer = envelopes.with_links_and_meta(
        body,
        self_link=view.url,
        next_link=view.link(changes_since=bookmark) if has_more else None,
        links=not compact,
        warnings=view.warnings,
        meta=shown.meta,
    )
    visible = followed.visible
    items = [item for row in shown.items for item in envelopes.record_items(visible, row)]
    return Answer(answer, items or envelopes.stream_items(visible, fields=frozenset()))


def _read(view: GrantedView, query: ListRecords, followed: FollowedStream) -> ChangesPage:
    """Return the page after the client's bookmark.

    An expired bookmark raises CursorExpired with the URL to start again.
    """
    limit = page_limit(query.limit, view.warnings)
    try:
        standing = followed.decode(query.changes_since or "")
        return changes.page(followed.visible, standing, limit=limit, now=timezone.now())
    except CursorExpired as error:
        restart = view.link(changes_since=BEGINNING)
        error.param = "changes_since"
        error.extra["next_step"] = f"Start again: GET {restart}"
        raise


def _check_combination(query: ListRecords) -> None:
    for name in ("expand", "expand_limit"):
        if getattr(query, name) is not None:
            raise InvalidExpand(
                message="The changes feed does not support expand.",
                param=name,
                next_step="Read the changes feed of the related stream.",
            )
    for name in INCOMPATIBLE_PARAMETERS:
        if getattr(query, name) is not None:
            raise InvalidRequest(
                message=f"{name} cannot be combined with changes_since.", param=name
            )


def _row(visible: VisibleRecords, told: FeedItem, fields: frozenset[str] | None) -> dict[str, Any]:
    if isinstance(told, VisibleRecord):
        return envelopes.record_body(visible, told, project_fields(told, fields))
    return envelopes.tombstone_body(visible, told)


class RecordsView(GrantedView):
    route = "records"
    described: ClassVar = {"GET": Described("RecordList"), "DELETE": Described(status="204")}
    owner_methods: ClassVar = {"DELETE": DeleteRecords}
    parameters = ListRecords
    query: ListRecords
    extent: Sequence[tuple[str, str]] | None = None
    """The records that `window` discloses, if requested."""
    count_witnesses: Sequence[tuple[str, str]] = ()
    """The records that `count` discloses."""
    warning_witnesses: Sequence[tuple[str, str, str]] = ()
    """The records that warnings disclose, each with a field."""

    def get(self, request: Request, stream: str) -> Answer:
        """List the records of a stream, or what changed since a bookmark."""
        self._check_subject()
        if self.query.changes_since is not None:
            return changes_response(self, self.query, stream)
        visible = self.gate.stream(stream, connection_id=self.query.connection_id)
        where = parse_conditions(visible, self.query)
        order = self._order(visible)
        fields = parse_fields(visible, self.query)
        expansions = parse_expand(self.query, self.gate, visible)
        form = envelopes.parse_list_form(self.query)
        query = self._query(visible, order)
        limit = page_limit(self.query.limit, self.warnings)
        after = self._after(query)
        page = read_page(
            visible, limit=limit, descending=order.descending, by=order.field, after=after,
            where=where,
        )  # fmt: skip
        if after is None:
            self._warn(visible, where, page, order)
        data = [_record(visible, record, fields) for record in page.records]
        counted, extent = self._count(visible, where, page), self._window(visible, where)
        longest = self._max_cursor_length(page, query) if form.total else 0
        envelope = envelopes.envelope_size(
            form, url=self.url, warnings=self.warnings, cursor=longest, meta=[counted, extent]
        )
        rows = envelopes.with_expanded(data, page.records, expansions)
        shown = envelopes.fit_items(rows, form, envelope, order=envelopes.order_of_fields(visible))
        body = self._body(stream, page, shown, query)
        answer = envelopes.with_links_and_meta(
            body,
            self_link=self.url,
            next_link=None if form.compact else self._next_link(body),
            links=not form.compact,
            warnings=self.warnings,
            count=counted,
            meta={**(extent or {}), **shown.meta},
        )
        return Answer(answer, self._disclosed(visible, shown.items, expansions))

    def _disclosed(
        self,
        visible: VisibleRecords,
        bodies: Sequence[dict[str, Any]],
        expansions: Sequence[Expansion],
    ) -> list[DisclosedItem]:
        """Return the shown records, and those that a count, a window or a warning discloses."""
        name, fields = visible.stream.name, self.filter_fields(visible)
        related = {each.relation.name: each.child for each in expansions}
        shown = [
            item
            for body in bodies
            for item in envelopes.record_items(visible, body, filtered_by=fields, related=related)
        ]
        if self.extent is not None:
            times = fields | {str(visible.stream.consent_time_field)}
            shown += envelopes.stream_items(visible, fields=times)
            shown += [DisclosedItem(one, name, key, times) for one, key in self.extent]
        shown += [DisclosedItem(one, name, key, fields) for one, key in self.count_witnesses]
        shown += [
            DisclosedItem(one, name, key, frozenset({field}))
            for one, key, field in self.warning_witnesses
        ]
        return shown or envelopes.stream_items(visible, fields=fields)

    def delete(self, request: Request, stream: str) -> Response:
        """Delete all records of a stream."""
        return delete_stream(self, stream)

    def _check_subject(self) -> None:
        if self.query.subject_id not in (None, self.scope.owner_id):
            raise InvalidArgument(
                message="subject_id names another owner than the token.", param="subject_id"
            )

    def _body(
        self,
        stream: str,
        page: RecordPage,
        shown: envelopes.ItemPage,
        query: dict[str, Any],
    ) -> dict[str, Any]:
        """Return the list, with a cursor after its last record if more follow."""
        has_more = page.has_more or len(shown.items) < len(page.records)
        body: dict[str, Any] = {
            "object": "list",
            "url": f"/v1/streams/{stream}/records",
            "has_more": has_more,
            **shown.shared,
            "data": shown.items,
        }
        if has_more:
            place = _place(page.records[len(shown.items) - 1].position)
            body["next_cursor"] = crypto.encode_cursor(
                "records", scope=self.scope, query=query, place=place
            )
        return body

    def _next_link(self, body: dict[str, Any]) -> str | None:
        cursor: str | None = body.get("next_cursor")
        return cursor and self.link(cursor=cursor)

    def _max_cursor_length(self, page: RecordPage, query: dict[str, Any]) -> int:
        places = (_place(record.position) for record in page.records)
        return crypto.cursor_length("records", scope=self.scope, query=query, places=places)

    def _warn(
        self, visible: VisibleRecords, where: list[SQL], page: RecordPage, order: RecordOrder
    ) -> None:
        """Warn of filter values that nothing has, and of records in the future before others."""
        conditions = self.query.filter
        if conditions and not (page.has_more or self.query.cursor):
            found = filters.find_unmatched(visible, conditions, is_empty=not page.records)
            self.warnings += unmatched_warnings(found.unmatched)
            self.warning_witnesses = found.witnesses
        if page.records and order.descending and order.field is None:
            tomorrow = (timezone.now() + timedelta(days=1)).date()
            count, witnesses = future_records(visible, where, page, since=tomorrow)
            if count:
                self.warnings.append(future_warning(count, tomorrow.isoformat()))
            name = str(visible.stream.cursor_field)
            future = [(*witness, name) for witness in witnesses]
            self.warning_witnesses = [*self.warning_witnesses, *future]

    def _order(self, visible: VisibleRecords) -> RecordOrder:
        return parse_order(visible, order=self.query.order, sort=self.query.sort)

    def _query(self, visible: VisibleRecords, order: RecordOrder) -> dict[str, Any]:
        """Return the query that a cursor is bound to."""
        return {
            **self.query.binding(),
            **resolved(visible),
            "order": "desc" if order.descending else "asc",
            "sort": order.field.name
            if order.field
            else visible.stream.cursor_field
            if visible.in_time_order
            else None,
        }

    def _after(self, query: dict[str, Any]) -> Keyset | None:
        if self.query.cursor is None:
            return None
        place = crypto.decode_cursor(self.query.cursor, "records", scope=self.scope, query=query)
        return Keyset(place["s"], place["r"], place["c"])

    def _count(
        self, visible: VisibleRecords, where: Any, page: RecordPage
    ) -> dict[str, Any] | None:
        if self.query.count in (None, "none"):
            return None
        total, self.count_witnesses = count_with_witnesses(visible, where, page)
        return {"kind": "exact", "value": total}

    def _window(self, visible: VisibleRecords, where: Any) -> dict[str, Any] | None:
        if self.query.window != "exact":
            return None
        extent = read_window(visible, where)
        self.extent = extent.witnesses
        return {
            "window": {
                "total": extent.total,
                "earliest_at": envelopes.format_time(extent.earliest_at),
                "latest_at": envelopes.format_time(extent.latest_at),
            }
        }


def _record(
    visible: VisibleRecords, record: VisibleRecord, fields: frozenset[str] | None
) -> dict[str, Any]:
    return envelopes.record_body(visible, record, project_fields(record, fields))


def _place(position: Keyset) -> dict[str, Any]:
    return {"s": position.sort_key, "r": position.record_key, "c": position.connection_id}


def future_records(
    visible: VisibleRecords, where: Sequence[SQL], page: RecordPage, *, since: date
) -> tuple[int, Sequence[tuple[str, str]]]:
    """Return the number of matching records since a day in UTC, and the records that it discloses.

    No query unless the first record of the page is one of them.
    """
    newest = page.records[0].position.sort_key or ""
    if newest[:1] not in TIME_KEYS or newest[1:] < since.isoformat():
        return 0, ()
    if visible.stream.cursor_field != visible.stream.event_time_field or not has_own_time(visible):
        return 0, ()
    start = datetime.combine(since, time.min, UTC)
    return count_with_witnesses(
        visible, [*where, time_filter(visible, "gte", start, param="before")], page
    )
