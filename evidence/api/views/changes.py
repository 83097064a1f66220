"""The changes feed: `GET /v1/streams/{stream}/records?changes_since=…` (contract 3.3)."""

from typing import Any

from django.utils import timezone
from rest_framework.response import Response

from evidence import limits
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.api import envelopes, list_form, long_poll
from evidence.api.base_views import GrantedView
from evidence.api.query_parameters import parse_fields, parse_wait
from evidence.errors import CursorExpired, InvalidExpand, InvalidRequest
from evidence.reading import changes, records
from evidence.reading.bookmarks import BEGINNING, FollowedStream
from evidence.reading.changes import ChangesPage, FeedBookmark

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
"""Parameters that sort or filter. A feed has its own order, and only hashes of a record's former values
are stored, so the server cannot know whether a filter matched at the bookmark."""


def changes_response(view: GrantedView, stream: str) -> Response:
    """Return a page of changes and the bookmark to continue from.

    `fields` and `view` project records; a change in any granted field counts. With `wait`, the
    response may take that many seconds.
    """
    query = view.query
    _check_combination(view)
    seconds = parse_wait(view.query)
    visible = view.gate.stream(stream, connection_id=query.connection_id())
    followed = FollowedStream(view.scope, visible, query.connection_id())
    fields = parse_fields(visible, query)
    form = list_form.parse_list_form(query)
    standing, page = _read(view, followed)
    if long_poll.must_wait(view, standing, page, seconds=seconds):
        return Response({"object": "list", "data": []})
    rows = [_row(visible, change, fields) for change in page.items]
    shown = list_form.fit_items(
        rows,
        form,
        list_form.envelope_size(
            query, form, cursor=followed.max_encoded_length(page.bookmark, items=page.items)
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
) -> Response:
    query = view.query
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
    return Response(
        envelopes.with_links_and_meta(
            body,
            self_link=query.path,
            next_link=query.link(changes_since=bookmark) if has_more else None,
            links=not compact,
            warnings=query.warnings,
        )
    )


def _read(view: GrantedView, followed: FollowedStream) -> tuple[FeedBookmark, ChangesPage]:
    """Return the client's bookmark and the page after it.

    An expired bookmark raises CursorExpired with the URL to start again.
    """
    query = view.query
    limit = query.positive_integer("limit", default=limits.PAGE_DEFAULT, max_value=limits.PAGE_MAX)
    try:
        standing = followed.decode(query.text("changes_since") or "")
        return standing, changes.page(followed.visible, standing, limit=limit, now=timezone.now())
    except CursorExpired as error:
        restart = query.link(changes_since=BEGINNING)
        error.param = "changes_since"
        error.extra["next_step"] = f"Start again: GET {restart}"
        raise


def _check_combination(view: GrantedView) -> None:
    for name in ("expand", "expand_limit"):
        if view.query.has(name):
            raise InvalidExpand(
                message="The changes feed does not support expand.",
                param=name,
                next_step="Read the changes feed of the related stream.",
            )
    for name in INCOMPATIBLE_PARAMETERS:
        if view.query.has(name):
            raise InvalidRequest(
                message=f"{name} cannot be combined with changes_since.", param=name
            )


def _row(
    visible: VisibleRecords, told: changes.FeedItem, fields: frozenset[str] | None
) -> dict[str, Any]:
    if isinstance(told, VisibleRecord):
        return envelopes.record_body(visible, told, records.project_fields(told, fields))
    return envelopes.tombstone_body(visible, told)
