"""The changes feed: `GET /v1/streams/{stream}/records?changes_since=…` (contract 3.3)."""

from typing import Any

from django.utils import timezone

from evidence.access.change_log import FeedItem
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.api import envelopes, list_form
from evidence.api.base_views import Answer, GrantedView
from evidence.api.query_parameters import page_limit, parse_fields
from evidence.errors import CursorExpired, InvalidExpand, InvalidRequest
from evidence.parameters import ListRecords
from evidence.read import changes, records
from evidence.read.changes import BEGINNING, ChangesPage, FollowedStream

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
    form = list_form.parse_list_form(query)
    page = _read(view, query, followed)
    rows = [_row(visible, change, fields) for change in page.items]
    shown = list_form.fit_items(
        rows,
        form,
        list_form.envelope_size(
            form,
            url=view.url,
            warnings=view.warnings,
            cursor=followed.max_encoded_length(page.bookmark, items=page.items),
        ),
        order=list_form.order_of_fields(visible),
    )
    return _page_response(view, stream, followed, page, shown, compact=form.compact)


def _page_response(
    view: GrantedView,
    stream: str,
    followed: FollowedStream,
    page: ChangesPage,
    shown: list_form.ItemPage,
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
        return envelopes.record_body(visible, told, records.project_fields(told, fields))
    return envelopes.tombstone_body(visible, told)
