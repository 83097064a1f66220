"""The changes feed: `GET /v1/streams/{stream}/records?changes_since=…` (contract 3.3).

Long polling: a server that can keep a request waiting passes a LongPoll in the WSGI environment, which
no HTTP client can. A view with no changes stores a condition there. The server discards the response,
and calls the view again when the condition is met.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from evidence import limits
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.api import envelopes, list_form
from evidence.api.base_views import Answer, GrantedView
from evidence.api.query_parameters import ApiWarning, parse_fields, parse_wait
from evidence.errors import CursorExpired, InvalidExpand, InvalidRequest
from evidence.read import changes, records
from evidence.read.bookmarks import BEGINNING, FollowedStream
from evidence.read.changes import ChangesPage, FeedBookmark

ENVIRON_KEY = "pdpp.held"


@dataclass(frozen=True, slots=True)
class WaitCondition:
    """When to call a waiting view again.

    The wait ends when a latest change number differs from `seen` (connection id -> number), when the
    grants of the token change, or after `seconds` since the first call. A token waits once at a time.
    """

    owner_id: str
    token_id: str
    seconds: int
    seen: Mapping[str, int]
    grants: frozenset[str]


@dataclass(slots=True)
class LongPoll:
    """State of a waiting request. `open`: the view may be called again. `full`: no place to wait."""

    open: bool
    full: bool = False
    condition: WaitCondition | None = None


def must_wait(
    view: GrantedView, began: FeedBookmark, page: ChangesPage, *, seconds: int | None
) -> bool:
    """Return whether the request waits because the page has no changes; then set the condition.

    The last page of an unfinished reading is sent at once: it has a new bookmark.
    """
    if seconds is None or page.items or page.has_more or began.until_at is not None:
        return False
    long_poll = view.request._request.META.get(ENVIRON_KEY)  # noqa: SLF001 - DRF's own name
    if isinstance(long_poll, LongPoll) and long_poll.open:
        seen = {
            connection_id: reach.since or 0 for connection_id, reach in page.end.positions.items()
        }
        grants = frozenset(grant.grant_id for grant in view.scope.grants if grant.grant_id)
        scope = view.scope
        condition = WaitCondition(scope.owner_id, scope.token_id, seconds, seen, grants)
        long_poll.condition = condition
        view.discarded = True
        return True
    if not isinstance(long_poll, LongPoll) or long_poll.full:
        view.query.warnings.append(
            ApiWarning(
                "wait_not_held",
                f"This server has no free place to wait; try again in {seconds} seconds.",
                "wait",
            )
        )
    return False


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


def changes_response(view: GrantedView, stream: str) -> Answer:
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
    if must_wait(view, standing, page, seconds=seconds):
        return Answer({"object": "list", "data": []})
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
) -> Answer:
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
    answer = envelopes.with_links_and_meta(
        body,
        self_link=query.path,
        next_link=query.link(changes_since=bookmark) if has_more else None,
        links=not compact,
        warnings=query.warnings,
    )
    visible = followed.visible
    items = [item for row in shown.items for item in envelopes.record_items(visible, row)]
    return Answer(answer, items or envelopes.stream_items(visible, fields=frozenset()))


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
